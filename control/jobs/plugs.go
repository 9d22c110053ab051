package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// comparePlugs takes note of a plug that does not hold what it held when the group was submitted.
func (a *attempt) comparePlugs(ctx context.Context) error {
	for _, p := range a.recipe.Plugs {
		if p.Content == "" || a.changed != "" {
			continue
		}
		now, err := a.plugs.Of(ctx, p.Path)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || now.Hash != p.Content {
			a.changed = p.Path
			a.Logger.WarnContext(ctx, "a plug does not hold what it held when the group was submitted: no other group uses what the job builds", "job", a.task.Target(), "plug", p.Path)
		}
	}
	return nil
}

// inputs is the hash of what went into the job. If a plug has changed, no other job has that hash.
func (a *attempt) inputs(ctx context.Context) (string, error) {
	if err := a.comparePlugs(ctx); err != nil || a.changed == "" {
		return a.task.Inputs, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%d", a.task.Inputs, a.changed, a.task.Target(), a.task.Attempt))
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
