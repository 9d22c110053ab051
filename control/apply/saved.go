package apply

import (
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/planfile"
)

// bind has a run do what the saved plan says that the request carries, and nothing else. Who sends
// it has compared the manifests and variables with it; they may have changed since.
func (r *Request) bind(c *work.Config, run *Run) error {
	refused := func(format string, args ...any) error {
		return &work.InputError{Cause: fmt.Errorf("the saved plan "+format, args...)}
	}
	text, err := c.Texts.Load(r.Saved)
	if err != nil {
		return fmt.Errorf("loading the saved plan: %w", err)
	}
	saved, err := planfile.Decode(text)
	if err != nil {
		return refused("%w", err)
	}
	if now := run.Place(); now != saved.Engine {
		return refused("was made on %s, and this server has %s: plan again", saved.Engine, now)
	}
	defined, valued, err := saved.Changed(run.Manifest, run.Set())
	if err != nil {
		return &work.InputError{Cause: err}
	}
	included := map[string][]byte{} // by what the plan leaves open
	for name := range saved.Includes {
		if r.Carries[name] == "" {
			continue // it is said to be removed
		}
		if included[name], err = c.Texts.Load(r.Carries[name]); err != nil {
			return fmt.Errorf("file %s: %w", name, err)
		}
	}
	texts, err := saved.ChangedIncluded(included)
	switch {
	case err != nil:
		return &work.InputError{Cause: err}
	case len(defined)+len(valued)+len(texts) > 0:
		return refused("is of others: %s; plan again", strings.Join(append(append(defined, valued...), texts...), ", "))
	}
	run.Bind(saved, r.Again)
	return nil
}

// Saved is a plan in a form in which it is sent to be saved, as planfile.Sent reads it; nil where
// the run has not planned, or not what can be applied.
func (s *Served) Saved() ([]byte, error) {
	plan := s.kept()
	if plan == nil || plan.drift || !plan.whole || plan.request.Removing {
		return nil, nil
	}
	return planfile.Send(&planfile.File{Salt: plan.salt, Run: s.ID, Engine: plan.engine, Log: plan.log, Resources: plan.resources})
}
