package environment

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/acceptance"
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

// A revision that brings more than it may waits until somebody else accepts exactly that.
func TestARevisionThatIsAskedForIsAccepted(t *testing.T) {
	w := newWorld(t)
	define := func(tag string) *definition.Definition { return defined(image(tag)) }
	w.propose(Create{Definition: define("log-daemon:1"), By: "alice@host"})
	ids := 0
	request := func(base int, tag string) Ask {
		ids++
		return Ask{Update: Update{Base: base, Definition: define(tag), Bound: true, By: "token ci"}, Excess: []string{"plug root: asks for path /; allowed: nothing"}, ID: fmt.Sprint("ask-", ids)}
	}
	asked := func() report.Asked {
		t.Helper()
		restored := must.Get(Restore(w.state.Name(), must.Get(w.state.Snapshot())(t)))(t)
		of, waits := restored.Asked(w.now)
		require.True(t, waits)
		a, _ := w.state.Asked(w.now)
		assert.Equal(t, a, of)
		return a
	}
	w.propose(request(1, "evil:1"))
	a := asked()
	assert.Len(t, w.state.Revisions(), 1, "it is made")
	w.explains(0, "", reason.AwaitsAcceptance, "revision 2 is asked for by token ci (event 2), and not made: plug root: asks for path /; allowed: nothing", "deployster env accept SomeEnvironment/Prod 2 --content "+a.Content,
		"deployster env diff SomeEnvironment/Prod 1 2 --all shows everything that it changes")
	w.refuses(request(1, "evil:2"), acceptance.AlreadyAsked, "already asked for, by token ci (event 2): deployster env decline SomeEnvironment/Prod 2 takes it back")
	w.refuses(request(2, "evil:2"), UnknownRevision)
	w.refuses(Accept{Revision: 2, By: "lead"}, acceptance.CarriesOther, "deployster env accept SomeEnvironment/Prod 2 --content "+a.Content)
	w.refuses(Accept{Revision: 2, Content: "sha256:0", By: "lead"}, acceptance.CarriesOther, "and not with sha256:0")
	w.refuses(Accept{Revision: 2, Content: a.Content, By: "token ci"}, acceptance.AskedByYou)
	w.refuses(Accept{Revision: 3, Content: a.Content, By: "lead"}, acceptance.NothingAsked, "no such request for revision 3 of environment SomeEnvironment/Prod; those that wait are 2")

	// What is accepted is the definition's own: its author answers for it.
	w.propose(Accept{Revision: 2, Content: a.Content, By: "lead"})
	own, _ := w.state.Owner()
	assert.Equal(t, []any{2, "token ci", false, &acceptance.Accepted{By: "lead", Asked: "ask-1", Content: a.Content}}, []any{own.Number, own.By, own.Bound, own.Accepted})
	w.refuses(Accept{Revision: 2, Content: a.Content, By: "lead"}, acceptance.NothingAsked, "none waits")

	// It is over once it is declined, has expired, or another revision was made.
	w.propose(request(2, "evil:3"))
	w.propose(Decline{Revision: 3, By: "lead", Reason: "no"})
	w.refuses(Decline{Revision: 3, By: "lead"}, acceptance.NothingAsked)
	w.propose(request(2, "evil:3"))
	b := asked()
	w.after(acceptance.Lasts)
	w.refuses(Accept{Revision: 3, Content: b.Content, By: "lead"}, acceptance.NothingAsked, "has expired")
	_, waits := w.state.Asked(w.now)
	assert.False(t, waits)
	w.propose(request(2, "evil:3"))
	w.propose(Update{Base: 2, Definition: define("log-daemon:2"), By: "alice@host"})
	w.refuses(Accept{Revision: 3, Content: b.Content, By: "lead"}, acceptance.NothingAsked)

	// Somebody who writes to the log alters nothing of what is accepted.
	w.propose(request(3, "evil:4"))
	c := asked()
	w.state.asked[0].Payload.Definition = define("worse:1")
	w.refuses(Accept{Revision: 4, Content: c.Content, By: "lead"}, acceptance.CarriesOther, "is not what it says")
	w.propose(Delete{LeaveTasks: true})
	_, waits = w.state.Asked(w.now)
	assert.False(t, waits, "for an environment that is deleted")
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
