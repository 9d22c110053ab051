package environment

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/internal/must"
)

// A revision is bound if it was made by who may bring no more than the definition names and allows. Whoever makes
// another one of the same task answers for that.
func TestOnlyRevisionsOfThoseWhoMayNotBringEverythingAreBound(t *testing.T) {
	w := newWorld(t)
	images := func(name string) *allow.Rules { return &allow.Rules{Images: []string{name}} }
	define := func(text string, rules *allow.Rules, health int) *definition.Definition {
		d := *defined(image(text))
		d.Allow, d.Deployment.MinHealthyPercent = rules, 80+health
		return &d
	}
	update := func(d *definition.Definition, bound bool) {
		w.propose(Update{Base: len(w.state.Revisions()), Definition: d, Bound: bound, By: "alice@host"})
	}
	wants := func(deployed, revision int, bound bool, now *allow.Rules, former ...*allow.Rules) {
		t.Helper()
		if f := w.state.active; f == nil || f.Revision != deployed {
			w.propose(Deploy{Revision: deployed, Hosts: hostNames(1), By: "alice@host"})
		}
		state := must.Get(Restore(w.state.Name(), must.Get(w.state.Snapshot())(t)))(t)
		for _, s := range []*State{w.state, state} {
			b := s.Task(revision, "h1").Bounds
			if require.Equal(t, bound, b != nil, "task of revision %d while revision %d is deployed", revision, deployed); bound {
				assert.Equal(t, tasks.Bounds{Allow: now, Former: former, Own: s.revisions[0].Definition.Task, OwnQuery: b.OwnQuery, Query: b.Query}, *b)
			}
		}
	}
	w.propose(Create{Definition: define("log-daemon:1", images("a"), 0), By: "alice@host"})
	update(define("log-daemon:2", images("a"), 0), true) // 2
	wants(2, 2, true, images("a"))
	wants(2, 1, false, nil)

	// A revision that shares the task of a bound one, by who may bring everything.
	update(define("log-daemon:2", images("a"), 1), false) // 3
	require.Equal(t, 2, w.state.taskOf(3))
	wants(3, 2, false, nil)
	wants(3, 3, false, nil)

	// Other rules since: those of before count for what was made then.
	update(define("log-daemon:4", images("b"), 1), false) // 4
	update(define("log-daemon:4", nil, 1), false)         // 5
	wants(5, 2, true, nil, images("a"), images("b"))
	wants(5, 5, false, nil)
}

// What is made of a bound revision is bound if that has anything besides some variables which the definition has not.
func TestWhatIsMadeOfABoundRevision(t *testing.T) {
	w := newWorld(t)
	assert.False(t, w.state.StaysBound("image"), "there is no revision")
	w.propose(Create{Definition: defined(image("log-daemon:1")), By: "alice@host"})
	assert.False(t, w.state.StaysBound("image"))
	w.propose(Update{Base: 1, Definition: defined(image("log-daemon:2")), Bound: true, By: "ci"})
	assert.False(t, w.state.StaysBound("image"))
	assert.True(t, w.state.StaysBound("revision"))
	d := defined(image("log-daemon:2"))
	d.Deployment.MaxOver++
	w.propose(Update{Base: 2, Definition: d, Bound: true, By: "ci"})
	assert.True(t, w.state.StaysBound("image"))
	w.propose(Update{Base: 3, Definition: defined(image("log-daemon:3")), By: "alice@host"})
	assert.False(t, w.state.StaysBound("image"))
}

// Who changes only where a task runs does not bring the task.
func TestATaskOfTheDefinitionIsOnOtherHosts(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(image("log-daemon:1")), By: "alice@host"})
	d := *defined(image("log-daemon:1"))
	d.InstanceGroup.Query = "name exists"
	w.propose(Update{Base: 1, Definition: &d, Bound: true, By: "ci"})
	w.propose(Deploy{Revision: 2, Hosts: hostNames(1), By: "ci"})
	task := w.state.Task(1, "h1")
	require.NotNil(t, task.Bounds)
	assert.Equal(t, must.Get(json.Marshal(task.Spec))(t), must.Get(json.Marshal(task.Bounds.Own))(t))
	assert.NotEqual(t, task.Bounds.OwnQuery, task.Bounds.Query)
}

// To delete an environment, what its tasks may be is allowed, and nothing else is changed.
func TestWhatIsAllowedCanBeChangedWhileAnEnvironmentIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(image("log-daemon:1")), By: "alice@host"})
	w.propose(Update{Base: 1, Definition: defined(image("log-daemon:2")), Bound: true, By: "ci"})
	w.propose(Deploy{Revision: 2, Hosts: hostNames(1), By: "ci"})
	w.propose(Delete{TerminateTasks: true, By: "alice@host"})
	allowing := func(d definition.Definition) *definition.Definition {
		d.Allow = &allow.Rules{Images: []string{"log-daemon:*"}}
		return &d
	}
	w.refuses(Update{Base: 2, Definition: allowing(*defined(image("log-daemon:3"))), By: "alice@host"}, BeingDeleted)
	w.propose(Update{Base: 2, Definition: allowing(*defined(image("log-daemon:2"))), By: "alice@host"})
	assert.Equal(t, []string{"log-daemon:*"}, w.state.Task(2, "h1").Bounds.Allow.Images)
}
