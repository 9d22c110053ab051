package runner

import (
	"cmp"
	"context"
	"fmt"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/schema"
)

// Past is what earlier runs left of a resource.
type Past struct {
	Identity    string         // within the log: the name, with its place, that it had first; "" is the one that it has
	Kept        map[string]any // what answers had kept last; nil is nothing
	Secrets     [][]string     // where there are values in it that are not to be seen, as of what was adopted
	Interrupted bool           // how its last action ended is not known

	// Of a run whose Recorder records what it makes:
	ID   string                      // within the log, where that is not the name; "" is that
	Made *report.Undeclared          // what runs of the manifest made of it last, and is there; nil is nothing
	Open func() (report.Made, error) // what it takes to remove that
}

// PastFunc returns the past of a resource; what is kept only of one of a type that keeps.
type PastFunc func(ctx context.Context, resource string, keeps bool) (Past, error)

// recall finds out what earlier runs left of a resource. Where the run changes something, it
// has entered the resource before: nobody else changes that meanwhile.
func (r *Runner) recall(ctx context.Context, res *resource) (err error) {
	res.past, res.recalled = Past{}, Past{}
	if r.caller.Past == nil {
		return nil
	}
	if res.undeclared != nil && res.of == nil && r.caller.Owners != nil {
		res.past, err = r.caller.Owners.PastOf(ctx, *res.undeclared, res.init.Keeps)
	} else {
		res.past, err = r.caller.Past(ctx, res.Name, res.init.Keeps)
	}
	if err != nil {
		return fmt.Errorf("finding out what earlier runs left of it: %w", err)
	}
	res.recalled = res.past
	r.learnKept(res, res.past.Kept)
	return nil
}

// learnKept learns the secrets in what is kept of a resource.
func (r *Runner) learnKept(res *resource, keep map[string]any) {
	r.learnIn(res, keep)
	r.secrets.Add(keep, res.past.Secrets)
}

func (r *Runner) id(res *resource) string {
	return invoke.ResourceID(r.containers.Log, cmp.Or(res.past.ID, res.past.Identity, invoke.Placed(res.Name, r.containers.Place)))
}

// remember records what a type has kept of a resource, if it is another than before. It is
// durable before anything relies on it.
func (r *Runner) remember(ctx context.Context, res *resource, keep map[string]any) error {
	if keep == nil {
		return nil
	}
	if !res.init.Keeps {
		return &protocol.AnswerError{Path: "keep", Message: `must not be there: init of ` + res.Type + ` does not answer "keeps": true`}
	}
	r.learnKept(res, keep)
	if res.adopted != nil { // what is not there is not adopted, and nothing is kept of it
		res.past.Kept = keep
		return nil
	}
	if !r.applying || len(keep) == 0 && len(res.past.Kept) == 0 || diff.Identical(keep, res.past.Kept) {
		return nil
	}
	err := r.emit(ctx, r.keeping(res, keep))
	if err == nil {
		res.past.Kept = keep
	}
	return err
}

// keeping is the event of what is kept of a resource.
func (r *Runner) keeping(res *resource, keep map[string]any) report.Event {
	res.kept++
	e := res.event(report.ResourceKept)
	e.Attempt, e.Keep, e.Protect, e.Secrets = res.kept, keep, r.protects(res, keep), res.past.Secrets
	return e
}

// protects reports whether something that is kept may be secret: all of it where its type has
// secrets, as it need not have the form of configurations or states.
func (r *Runner) protects(res *resource, keep map[string]any) bool {
	return res.marksSecrets() || len(res.past.Secrets) > 0 || !diff.Identical(r.secrets.MaskValue(keep), keep)
}

// marksSecrets reports whether the type says of anything that it is secret.
func (res *resource) marksSecrets() bool {
	marks := func(s *schema.Schema) bool { return s != nil && s.MarksSecrets() }
	return marks(res.schema) || marks(res.states)
}
