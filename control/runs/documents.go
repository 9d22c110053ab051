package runs

import (
	"cmp"
	"context"
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/runner/report"
)

// Documents are the names of the protected documents that somebody may still ask for: what is
// kept of resources, what it takes to remove what runs have made, and the values of secret
// outputs. Others were written by who died before the log referred to them, or before they were
// removed.
func Documents(ctx context.Context, log deploylog.Log) (map[string]bool, error) {
	last := map[string]*protected.Ref{} // by the id of the thing
	for e, err := range log.Read(ctx, deploylog.Filter{Name: string(report.ResourceKept)}) {
		if err != nil {
			return nil, fmt.Errorf("reading what is kept of resources: %w", err)
		}
		p := DataOf(e)
		id := cmp.Or(p.ID, string(e.Target))
		last[id] = nil
		if p.Kept != nil {
			last[id] = p.Kept.Protected
		}
	}
	names := map[string]bool{}
	refer := func(ref *protected.Ref) {
		if ref != nil {
			names[ref.Name] = true
		}
	}
	for _, ref := range last {
		refer(ref)
	}
	history, err := ReadHistory(ctx, log, nil)
	if err != nil {
		return nil, err
	}
	things, err := history.All(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range things {
		refer(t.Protected)
	}
	outputs, err := ReadOutputs(ctx, log, "run/")
	if err != nil {
		return nil, err
	}
	for _, told := range outputs.told {
		for _, one := range told {
			refer(one.secret)
		}
	}
	return names, nil
}
