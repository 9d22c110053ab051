package gc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/objects"
)

// artifacts removes those that no build needs, and what is unpacked of the others and no job
// that may run uses: it is unpacked again for the next one.
func (c *Collector) artifacts(ctx context.Context) (Removed, error) {
	r := Removed{Kind: Artifacts, Left: c.ArtifactsLeft}
	switch {
	case c.Artifacts == nil && r.Left == "":
		return Removed{}, nil
	case c.Artifacts == nil:
		return r, nil
	}
	needed, used, err := c.neededArtifacts(ctx)
	if err != nil {
		return r, fmt.Errorf("looking for artifacts that are needed: %w", err)
	}
	before := c.before(artifacts.MinAge)
	pruned, err := c.Artifacts.Prune(ctx, before, needed.has, c.DryRun)
	r.Count, r.Bytes = pruned.Count, pruned.Bytes
	r.used(pruned.Oldest)
	if err != nil {
		return r, err
	}
	freed, err := c.Artifacts.PruneCopies(ctx, before, func(digest string) bool { return used.has(digest) || c.DryRun && !needed.has(digest) }, c.DryRun)
	r.Bytes += freed
	return r, err
}

// modules removes those that no lock names. They are of the user, not of the workspace: nothing is
// said where there is nothing to say.
func (c *Collector) modules(ctx context.Context) (Removed, error) {
	if c.Modules == nil {
		return Removed{}, nil
	}
	pruned, left, err := c.Modules(ctx, c.before(artifacts.MinAge), c.DryRun)
	if pruned.Count == 0 && pruned.Bytes == 0 && left == "" {
		return Removed{}, err
	}
	r := Removed{Kind: Modules, Count: pruned.Count, Bytes: pruned.Bytes, Left: left}
	r.used(pruned.Oldest)
	return r, err
}

// hashes are the names of objects and artifacts.
type hashes map[string]bool

func (h hashes) has(digest string) bool { return h[strings.TrimPrefix(digest, "sha256:")] }

// neededArtifacts finds the artifacts that events name, or the objects that these name, but
// for those of build groups that are not needed: what pipelines carry, built and gave to
// others stays. used are those that build groups name which have not ended.
func (c *Collector) neededArtifacts(ctx context.Context) (needed, used hashes, err error) {
	groups, err := c.groups(ctx)
	if err != nil {
		return nil, nil, err
	}
	needed, used = hashes{}, hashes{}
	for e, err := range c.Log.Read(ctx, deploylog.Filter{}) {
		if err != nil {
			return nil, nil, err
		}
		of, known := group{}, false
		if id, _, ours := record.Parse(e.Target); ours {
			of, known = groups[id]
		}
		if known && !of.needed {
			continue
		}
		objects.HashesIn(e.Data, func(hash string) {
			needed[hash] = true
			if known && !of.over {
				used[hash] = true
			}
		})
	}
	if err := c.follow(ctx, needed); err != nil {
		return nil, nil, err
	}
	return needed, used, c.follow(ctx, used)
}

// follow adds what the objects among hashes name, and so on: a pipeline carries a build group
// that carries what its jobs run, which names their sources.
func (c *Collector) follow(ctx context.Context, all hashes) error {
	if c.Objects == nil {
		return nil
	}
	var next []string
	for hash := range all {
		next = append(next, hash)
	}
	for len(next) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		hash := next[len(next)-1]
		next = next[:len(next)-1]
		content, err := c.Objects.Load(hash)
		if err != nil && !errors.Is(err, objects.ErrMissing) { // it is one, and may name some
			return err
		}
		objects.HashesIn(content, func(hash string) {
			if !all[hash] {
				all[hash] = true
				next = append(next, hash)
			}
		})
	}
	return nil
}
