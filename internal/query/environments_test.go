package query_test

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/must"
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
		events, err = e.Command(t.Context(), "shop", c)
		require.NoError(t, err)
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
	const version, first = `{"version":1}`, "" // the deployment that is followed
	superseded := func(deployment string) deploylog.Event {
		return event(deployment, record.EnvironmentFailed, `{"version":1,"error":"superseded"}`)
	}
	finished := func(deployment string) deploylog.Event { return event(deployment, record.EnvironmentFinished, version) }
	failed, stuck := event(first, record.EnvironmentFailed, version), event(first, record.EnvironmentStuck, version)
	again, next := another("shop:1@2026", "1"), another("shop:2@2027", "2")
	rollback := event("shop:1@2026", record.EnvironmentStarted, `{"version":1,"kind":"rollback","automatic":true}`)
	deletes := event("shop:2@2026", record.EnvironmentStarted, `{"version":1,"kind":"delete"}`)
	noProgress := event(first, record.EnvironmentStuck, `{"version":1,"error":"no progress"}`)
	unverified := event(first, record.EnvironmentStuck, `{"version":1,"error":"no answer","code":"not-verified"}`)
	for name, tc := range map[string]struct {
		happens []deploylog.Event
		ended   string // the deployment
		failure string
	}{
		"it finishes":         {[]deploylog.Event{finished(first)}, first, ""},
		"it is stuck":         {[]deploylog.Event{noProgress}, first, "is stuck: deployster env run shop retries it"},
		"another replaces it": {[]deploylog.Event{superseded(first), next}, first, "has not finished: superseded"},
		"its step is not verified": {[]deploylog.Event{unverified}, first,
			"is stuck: its step could not be verified: deployster env promote shop goes on all the same, deployster env deploy shop --revision 1 verifies it anew"},
		"its revision is deployed again": {[]deploylog.Event{failed, again, finished("shop:1@2026")}, "shop:1@2026", ""},
		"its revision is deployed again, and then another": {[]deploylog.Event{failed, again, superseded("shop:1@2026"), next}, "shop:1@2026",
			"deployment shop:1@2026 has not finished: superseded"},
		"its environment is deleted with its tasks": {[]deploylog.Event{superseded(first), deletes}, first, "has not finished: superseded"},
		"it rolls itself back": {[]deploylog.Event{stuck, failed, rollback, finished("shop:1@2026")}, "shop:1@2026",
			"was stuck, and was rolled back to revision 1"},
		"its environment is deleted": {[]deploylog.Event{event(first, record.EnvironmentDeleted, version)}, first, "was deleted while it was followed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, started := deployed(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				go func() {
					for _, happens := range tc.happens {
						happens.Deployment = cmp.Or(happens.Deployment, started.Deployment)
						assert.NoError(t, must.Fail(e.Log.Append(ctx, happens)))
					}
				}()
				seen := 0
				var last query.Progress
				for p, err := range e.Progress(ctx, "shop", started.Deployment, started.Seq-1) {
					require.NoError(t, err)
					last, seen = p, seen+len(p.Events)
				}
				assert.True(t, last.Over, "it is not over: %+v", last)
				assert.Equal(t, cmp.Or(tc.ended, started.Deployment), last.Deployment.ID)
				assert.Equal(t, 1+len(tc.happens), seen, "events that are seen")
				if tc.failure == "" {
					assert.NoError(t, last.Failure)
				} else {
					assert.ErrorContains(t, last.Failure, tc.failure)
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
					require.NoError(t, must.Fail(others.Command(t.Context(), "shop", c)))
				}
				ctx, cancel := context.WithTimeout(t.Context(), watched)
				defer cancel()
				var cordoned [][]string
				seen := started.Seq
				for p, err := range e.Progress(ctx, "shop", started.Deployment, started.Seq) {
					require.NoError(t, err)
					var hosts []string
					for _, c := range p.Report.Cordoned {
						hosts = append(hosts, c.Host)
					}
					cordoned = append(cordoned, hosts)
					for _, of := range p.Events {
						assert.Equal(t, seen+1, of.Seq, "event %d comes behind %d", of.Seq, seen)
						seen = of.Seq
					}
				}
				want := [][]string{{"one"}, {"two"}, nil}
				assert.True(t, slices.EqualFunc(cordoned, want, slices.Equal), "cordoned were %v, not %v", cordoned, want)
				assert.Equal(t, others.Head(), seen, "events were seen up to")
			})
		})
	}
}
