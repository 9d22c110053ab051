package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/hidden"
	"github.com/deployster-go/deployster/runner/report"
)

// made is what an Apply makes of a resource whose configuration is known; nil is nothing.
func (r *Runner) made(res *resource) *report.Made {
	if res.init.MakesNothing {
		return nil
	}
	m := &report.Made{
		Type: res.Type, ImageID: res.target.Image.ID, ImageDigest: res.target.Image.Digest, Config: res.config, DependsOn: res.dependsOn,
		Timeout: res.Timeout, PreventDestroy: res.PreventDestroy, Declared: res.Position, OneOfMany: res.of != nil, Removable: res.init.Removable, Identity: res.identity,
	}
	for _, name := range slices.Sorted(maps.Keys(res.init.Plugs)) {
		if p := res.Plug(r.spec.Manifest, name); p != nil && p.Allows(res.Name, res.Type) {
			m.Plugs = append(m.Plugs, report.MadePlug{Name: name, Path: p.Path, ReadOnly: p.ReadOnly})
		}
	}
	m.Secrets = hidden.Values(res.config, nil, func(path []string) bool { return res.target.Secret.Cover(path) }, r.secrets.MaskValue)
	if r.spec.Thing != nil {
		m.Identity.Mark = r.mark(res, m.Secrets)
	}
	return m
}

// mark is a hash of what a resource manages, or, after a ~, of its configuration if its type does
// not say what that is. It is "" where that would tell something of secrets.
func (r *Runner) mark(res *resource, secrets [][]string) string {
	thing, kind := r.known(res), ""
	if thing == "" && !res.init.Keeps && len(secrets) == 0 {
		thing, kind = r.thing(res), "~"
	}
	if thing == "" || r.secrets.Mask(thing) != thing {
		return ""
	}
	sum := sha256.Sum256([]byte(thing))
	return kind + hex.EncodeToString(sum[:16])
}

// madeBy is the run that made what is no longer declared, "" of what is.
func (res *resource) madeBy() string {
	if res.undeclared == nil || res.of != nil {
		return ""
	}
	return res.undeclared.Run
}

// orphan makes a resource of what is no longer declared. It is configured as it was made, and has
// the plugs that it had.
func orphan(u report.Undeclared) *resource {
	m := &manifest.Resource{
		Name: u.Name, Type: u.Type, Config: u.Config, Timeout: u.Timeout, Position: u.Declared, PreventDestroy: u.PreventDestroy,
	}
	if m.Config == nil {
		m.Config = map[string]any{}
	}
	var plugs []*manifest.Plug
	for _, p := range u.Plugs {
		plugs = append(plugs, &manifest.Plug{Name: p.Name, Path: p.Path, ReadOnly: p.ReadOnly, Position: u.Declared})
	}
	return &resource{
		Resource: m, dependsOn: slices.Sorted(slices.Values(u.DependsOn)), undeclared: &u, manifest: manifest.Recorded(m, plugs), ensure: protocol.Absent,
	}
}
