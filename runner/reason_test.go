package runner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// Every outcome that is not a success has a code, in the result and in the log.
func TestReasonsHaveCodes(t *testing.T) {
	for name, tc := range map[string]struct {
		text   string
		change func(*world, *options)
		want   map[string]report.ReasonCode
	}{
		"an action fails": {chain, func(w *world, _ *options) { w.fail["db"] = true }, map[string]report.ReasonCode{
			"db": report.ReasonActionFailed, "api": report.ReasonDependencyFailed, "other": report.ReasonRunFailed,
		}},
		"and the rest goes on": {chain, func(w *world, o *options) { w.fail["db"], o.KeepGoing = true, true }, map[string]report.ReasonCode{
			"db": report.ReasonActionFailed, "api": report.ReasonDependencyFailed, "other": "",
		}},
		"a person declines": {"resources: {db: {type: thing, config: {value: 1}}}", func(w *world, o *options) {
			o.Confirm, w.yes = runner.ConfirmAction, func(runner.Question) bool { return false }
		}, map[string]report.ReasonCode{"db": report.ReasonDeclined}},
		"a configuration is invalid": {"resources: {db: {type: thing, config: {}}, api: {type: thing, config: {value: 1}}}", nil, map[string]report.ReasonCode{
			"db": report.ReasonInvalid, "api": report.ReasonRunRefused,
		}},
		"it may not be changed": {"resources: {db: {type: thing, readonly: true, config: {value: 1}}}", nil, map[string]report.ReasonCode{
			"db": report.ReasonReadOnly,
		}},
		"another run has it": {"resources: {db: {type: thing, config: {value: 1}}}", func(w *world, o *options) {
			o.Guard = refusing{errors.New("no")}
		}, map[string]report.ReasonCode{"db": report.ReasonFailed}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			result, _ := w.runner(t, tc.text, func(o *options) {
				o.Parallelism = 1
				if tc.change != nil {
					tc.change(w, o)
				}
			}).Apply(t.Context())
			logged := map[string]report.Event{}
			for _, e := range w.logged {
				if e.Kind == report.ResourceFailed || e.Kind == report.ResourceSkipped {
					logged[e.Resource] = e
				}
			}
			for _, r := range result.Resources {
				if r.Reason != tc.want[r.Name] || logged[r.Name].Reason != r.Reason || logged[r.Name].Error != r.Error {
					t.Errorf("%s: the result is %q (%s), logged %q (%s)", r.Name, r.Reason, r.Error, logged[r.Name].Reason, logged[r.Name].Error)
				}
			}
		})
	}
}

// refusing is a Guard that lets nobody in.
type refusing struct{ err error }

func (r refusing) Enter(context.Context, string, func(string)) (func(), error) { return nil, r.err }
