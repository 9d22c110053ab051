package query_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/query"
)

// deployed is an environment of two revisions in a log. A deployment of the first has
// started.
func deployed(t *testing.T) (e *query.Environments, started deploylog.Event) {
	t.Helper()
	e = query.NewEnvironments(reconciletest.InMemory(t)(), time.Now)
	var events []deploylog.Event
	first := &definition.Definition{
		Name: "shop", Type: definition.Daemon, Task: definition.TaskSpec{Manifest: "task.yaml", Digest: "d"},
		InstanceGroup: definition.InstanceGroup{Query: "name exists"},
		Deployment:    definition.Configuration{Method: definition.Replace, ProgressDeadline: definition.Duration(time.Minute)},
	}
	second := *first
	second.Task.Digest = "e"
	for _, c := range []environment.Command{
		environment.Create{Definition: first},
		environment.Update{Base: 1, Definition: &second},
		environment.Deploy{Revision: 1, Hosts: []string{"one"}},
	} {
		var err error
		if events, err = e.Command(t.Context(), "shop", c); err != nil {
			t.Fatal(err)
		}
	}
	for _, started = range events {
		if started.Name == record.EnvironmentStarted {
			break
		}
	}
	return e, started
}

// another is a deployment of a revision that somebody starts.
func another(id, revision string) deploylog.Event {
	e := event(id, record.EnvironmentStarted, `{"version":1,"kind":"deploy"}`)
	e.Revision = revision
	return e
}

// event is one of the environment, as a controller records it.
func event(deployment, name, data string) deploylog.Event {
	return deploylog.Event{Deployment: deployment, Target: record.Target("shop"), Revision: "1", Name: name, Attempt: 1, Data: []byte(data)}
}

func TestADeploymentIsFollowedToItsEnd(t *testing.T) {
	const version = `{"version":1}`
	rollback := event("shop:1@2026", record.EnvironmentStarted, `{"version":1,"kind":"rollback","automatic":true}`)
	for name, tc := range map[string]struct {
		happens []deploylog.Event
		ended   string // the deployment; "" is the first
		failure string
	}{
		"it finishes": {happens: []deploylog.Event{event("", record.EnvironmentFinished, version)}},
		"it is stuck": {happens: []deploylog.Event{event("", record.EnvironmentStuck, `{"version":1,"error":"no progress"}`)}, failure: "is stuck: deployster env run shop retries it"},
		"its step is not verified": {
			happens: []deploylog.Event{event("", record.EnvironmentStuck, `{"version":1,"error":"no answer","code":"not-verified"}`)},
			failure: "is stuck: its step could not be verified: deployster env promote shop goes on all the same, deployster env deploy shop --revision 1 verifies it anew",
		},
		"another replaces it": {
			happens: []deploylog.Event{event("", record.EnvironmentFailed, `{"version":1,"error":"superseded"}`), another("shop:2@2026", "2")},
			failure: "has not finished: superseded",
		},
		"its revision is deployed again": {
			happens: []deploylog.Event{event("", record.EnvironmentFailed, version), another("shop:1@2026", "1"), event("shop:1@2026", record.EnvironmentFinished, version)},
			ended:   "shop:1@2026",
		},
		"its revision is deployed again, and then another": {
			happens: []deploylog.Event{
				event("", record.EnvironmentFailed, version), another("shop:1@2026", "1"),
				event("shop:1@2026", record.EnvironmentFailed, `{"version":1,"error":"superseded"}`), another("shop:2@2027", "2"),
			},
			ended: "shop:1@2026", failure: "deployment shop:1@2026 has not finished: superseded",
		},
		"its environment is deleted with its tasks": {
			happens: []deploylog.Event{
				event("", record.EnvironmentFailed, `{"version":1,"error":"superseded"}`), event("shop:2@2026", record.EnvironmentStarted, `{"version":1,"kind":"delete"}`),
			},
			failure: "has not finished: superseded",
		},
		"it rolls itself back": {
			happens: []deploylog.Event{event("", record.EnvironmentStuck, version), event("", record.EnvironmentFailed, version), rollback, event("shop:1@2026", record.EnvironmentFinished, version)},
			ended:   "shop:1@2026", failure: "was stuck, and was rolled back to revision 1",
		},
		"its environment is deleted": {happens: []deploylog.Event{event("", record.EnvironmentDeleted, version)}, failure: "was deleted while it was followed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, started := deployed(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				go func() {
					for _, happens := range tc.happens {
						if happens.Deployment == "" {
							happens.Deployment = started.Deployment
						}
						if _, err := e.Log.Append(ctx, happens); err != nil {
							t.Error(err)
						}
					}
				}()
				seen := 0
				var last query.Progress
				for p, err := range e.Progress(ctx, "shop", started.Deployment, started.Seq-1) {
					if err != nil {
						t.Fatal(err)
					}
					last, seen = p, seen+len(p.Events)
				}
				if want := tc.ended; want != "" && last.Deployment.ID != want {
					t.Errorf("it ends with deployment %s, not %s", last.Deployment.ID, want)
				}
				switch {
				case !last.Over:
					t.Errorf("it is not over: %+v", last)
				case tc.failure == "" && last.Failure != nil, tc.failure != "" && (last.Failure == nil || !strings.Contains(last.Failure.Error(), tc.failure)):
					t.Errorf("it fails with %v", last.Failure)
				case seen != 1+len(tc.happens):
					t.Errorf("%d events were seen, not %d", seen, 1+len(tc.happens))
				}
			})
		})
	}
}

func TestWhatWasReachedBeforeHostsWereUncordonedIsSeen(t *testing.T) {
	for name, watched := range map[string]time.Duration{"while it is watched": time.Minute, "when it is not watched any more": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, started := deployed(t)
				others := query.NewEnvironments(e.Log, time.Now)
				for _, c := range []environment.Command{
					environment.CordonHosts{Hosts: []string{"one"}, Drain: true}, environment.UncordonHosts{Hosts: []string{"one"}},
					environment.CordonHosts{Hosts: []string{"two"}}, environment.UncordonHosts{Hosts: []string{"two"}},
				} {
					if _, err := others.Command(t.Context(), "shop", c); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), watched)
				defer cancel()
				var cordoned [][]string
				seen := started.Seq
				for p, err := range e.Progress(ctx, "shop", started.Deployment, started.Seq) {
					if err != nil {
						t.Fatal(err)
					}
					var hosts []string
					for _, c := range p.Report.Cordoned {
						hosts = append(hosts, c.Host)
					}
					cordoned = append(cordoned, hosts)
					for _, of := range p.Events {
						if of.Seq != seen+1 {
							t.Errorf("event %d comes behind %d", of.Seq, seen)
						}
						seen = of.Seq
					}
				}
				if want := [][]string{{"one"}, {"two"}, nil}; !slices.EqualFunc(cordoned, want, slices.Equal) {
					t.Errorf("cordoned were %v, not %v", cordoned, want)
				}
				if seen != others.Head() {
					t.Errorf("events were seen up to %d, not %d", seen, others.Head())
				}
			})
		})
	}
}
