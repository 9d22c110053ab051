package runner_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// noOwners is a log in which no other manifest made anything.
type noOwners struct{ runner.Owners }

func (noOwners) Takes(context.Context, string, *report.Made) (*report.Owned, error) { return nil, nil }
func (noOwners) Other(context.Context, string) (*report.Owned, error)               { return nil, nil }
func (noOwners) Ours(context.Context, string) ([]*report.Owned, error)              { return nil, nil }

// A plan says just as an apply does that another engine answers by now, once.
func TestAPlanMentionsAnotherEngineAsAnApplyDoes(t *testing.T) {
	const address = "tcp://build.example:2376"
	for command, looks := range map[string]func(run) error{
		"plan":  func(r run) error { _, err := r.Plan(t.Context()); return err },
		"apply": func(r run) error { _, err := r.Apply(t.Context()); return err },
	} {
		for now, want := range map[string]int{"B": 1, "A": 0} {
			w := applied(t, levels)
			_ = looks(w.runner(t, levels, func(o *options) {
				o.Where, o.EngineID, o.Owners = address, now, noOwners{}
				o.Past = func(_ context.Context, name string, _ bool) (runner.Past, error) {
					made := report.Made{Type: "thing", Identity: report.Identity{Parts: map[string]string{report.PartType: "thing", report.PartEngine: address, report.PartEngineID: "A"}}}
					return runner.Past{Made: &report.Undeclared{Name: name, Run: "OLD", Made: made}, Open: func() (report.Made, error) { return made, nil }}, nil
				}
			}))
			said := slices.DeleteFunc(w.warnings(), func(text string) bool {
				return !strings.Contains(text, `another engine answers at `+address+` than the one that run OLD used (it was "A", and is "B")`)
			})
			assert.Len(t, said, want, "%s on %s: %q", command, now, w.warnings())
		}
	}
}
