package promotions_test

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/control/targets"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// machines are hosts to which somebody else deploys.
type machines struct {
	mu      sync.Mutex
	runs    string // revision for which all is VALID
	silent  bool
	asked   int
	watched int

	applies  func(ctx context.Context, q targets.Question) error // nil has it run everywhere then
	verifies func(ctx context.Context, q targets.Question, hosts []string) error
	applied  []string // HOST REVISION, as they ended well
	forgets  bool     // that is not to be seen
	on       map[string]string
}

// ApplyTarget implements promotions.Engines.
func (m *machines) ApplyTarget(ctx context.Context, q targets.Question) error {
	if m.applies != nil {
		if err := m.applies(ctx, q); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	revision := promotion.TextOf(q.Task.Spec.Vars["version"])
	m.applied = append(m.applied, q.Task.Host+" "+revision)
	if m.forgets {
		return nil
	}
	if m.on == nil {
		m.on = map[string]string{}
	}
	m.on[q.Task.Host] = revision
	return nil
}

// VerifyTarget implements promotions.Engines.
func (m *machines) VerifyTarget(ctx context.Context, q targets.Question, hosts []string) error {
	if m.verifies == nil {
		return nil
	}
	return m.verifies(ctx, q, hosts)
}

// ObserveTarget implements targets.Engines.
func (m *machines) ObserveTarget(ctx context.Context, q targets.Question) (tasks.ProbeResult, map[string]any) {
	m.mu.Lock()
	m.asked++
	if m.silent {
		m.mu.Unlock()
		select {
		case <-time.After(30 * time.Second):
		case <-ctx.Done():
		}
		return tasks.ProbeResult{Health: tasks.Unknown, Detail: "no answer"}, nil
	}
	defer m.mu.Unlock()
	switch {
	case promotion.TextOf(q.Task.Spec.Vars["version"]) == cmp.Or(m.on[q.Task.Host], m.runs):
		return tasks.ProbeResult{Health: tasks.Healthy}, nil
	}
	return tasks.ProbeResult{Health: tasks.Drifted, Detail: "web differs"}, nil
}

// Watch implements targets.Engines.
func (m *machines) Watch(ctx context.Context, _ string, _ func()) {
	m.mu.Lock()
	m.watched++
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.watched--
	m.mu.Unlock()
}

func (m *machines) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// looks returns how often it was asked, and how many watch it now.
func (m *machines) looks() (asked, watched int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked, m.watched
}

// onMachines is a world whose last stage is a manifest on hosts, for which the receiver is asked.
func (r *receiver) onMachines(t *testing.T, test func(*world, *machines)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, m := newWorld(t, reconciletest.InMemory(t)), &machines{runs: "0"}
		w.workspace, w.engines = r.workspace, m
		w.stages = []string{"dev", "prod"}
		w.define(single(), r.asks, func(d *definition.Definition) {
			d.Stages[1].Environment = "hosts:shop/prod"
			d.Stages[1].Targets = &definition.Targets{Manifest: "web.yaml", Hosts: "prod", CheckEvery: definition.Duration(time.Minute)}
		})
		test(w, m)
	})
}

func TestHostsAreAskedForAndObserved(t *testing.T) {
	r := newReceiver(t)
	r.onMachines(t, func(w *world, m *machines) {
		p := w.promotes("1")
		<-time.After(2 * time.Minute)
		asked := r.take()
		if len(asked) != 1 || asked[0].Revision != "1" || asked[0].Environment != "" || asked[0].Manifest != "web.yaml" || asked[0].Hosts != "prod" {
			t.Fatalf("asked: %+v", asked)
		}
		m.set(func() { m.runs = "1" })
		<-time.After(2 * time.Minute)
		w.finished("1", "prod")
		n := w.count(promotion.HostsObserved, "prod", "")
		<-time.After(time.Hour)
		assert.Equal(t, n, w.count(promotion.HostsObserved, "prod", ""), "nothing has changed")
		p.end()
		synctest.Wait()
		if _, watched := m.looks(); watched != 0 {
			t.Errorf("%d hosts are watched by nobody", watched)
		}
	})
}

// While hosts are asked about a revision nobody says that it is about to come to them, and since
// when they do not answer is said, too.
func TestWhoAsksWhileHostsDoNotAnswerIsToldSo(t *testing.T) {
	r := newReceiver(t)
	r.onMachines(t, func(w *world, m *machines) {
		m.runs = "1"
		p := w.start()
		defer p.end()
		w.deploys("dev", "1")
		<-time.After(2 * time.Minute)
		m.set(func() { m.silent = true })
		w.deploys("dev", "2")
		<-time.After(15 * time.Second)
		w.says("prod", promotion.Unobserved, "have not answered yet whether they run revision 2")
		<-time.After(2 * time.Minute)
		first := w.explain("prod")
		if first.Code != promotion.Unobserved || !strings.Contains(first.Message, "no answer") || !strings.Contains(first.Message, "; that is so since ") {
			t.Errorf("when they have not answered it is %s: %s", first.Code, first.Message)
		}
		<-time.After(time.Hour)
		assert.Equal(t, first.Message, w.explain("prod").Message, "an hour later it")
		assert.Len(t, r.take(), 0, "asked for hosts that do not answer")
	})
}

// throughMachines is a world in which a revision goes through hosts to the last stage, which is held.
func throughMachines(t *testing.T, test func(*world, *machines)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, m := newWorld(t, reconciletest.InMemory(t)), &machines{runs: "0"}
		w.engines = m
		w.define(single(), onMachinesAt("staging"))
		w.commands("shop", promotion.HoldStage{Stage: "prod", ID: "hold"})
		test(w, m)
	})
}

// onMachinesAt has the stage in the middle be a manifest on hosts, by a name.
func onMachinesAt(name string) func(*definition.Definition) {
	return func(d *definition.Definition) {
		d.Stages[1] = definition.Stage{
			Name: name, Environment: "hosts:shop/" + name, Targets: &definition.Targets{Manifest: "web.yaml", Hosts: "staging", CheckEvery: definition.Duration(time.Minute)},
		}
	}
}

// What a former process saw of hosts, and recorded, lets nothing go on: they may not run it any more.
func TestNothingGoesOnByWhatAFormerProcessSaw(t *testing.T) {
	throughMachines(t, func(w *world, m *machines) {
		p := w.promotes("1")
		<-time.After(5 * time.Minute)
		w.says("prod", promotion.IsHeld, "")
		p.die()
		m.set(func() { m.silent = true })
		w.proposes(promotion.ReleaseHold{Stage: "prod", ID: "release"})
		p = w.start()
		<-time.After(10 * time.Minute)
		assert.Equal(t, 0, w.startedIn("prod"), "deployments by what nobody sees any more")
		m.set(func() { m.silent = false })
		<-time.After(10 * time.Minute)
		p.end()
		assert.Equal(t, "1", w.at("prod"), "it does not go on when they answer")
	})
}

// Hosts of a stage that a definition has no more, or of a pipeline that is deleted, are looked at no more.
func TestTheHostsOfAStageThatIsGoneAreLeftAlone(t *testing.T) {
	throughMachines(t, func(w *world, m *machines) {
		p := w.promotes("1")
		<-time.After(5 * time.Minute)
		w.define(single(), onMachinesAt("canary"))
		<-time.After(5 * time.Minute)
		if _, watched := m.looks(); watched != 2 {
			t.Errorf("of two hosts of one stage %d are watched", watched)
		}
		w.commands("shop", promotion.Delete{Cancel: true, ID: "delete"})
		<-time.After(5 * time.Minute)
		before, _ := m.looks()
		<-time.After(time.Hour)
		if asked, watched := m.looks(); asked != before || watched != 0 {
			t.Errorf("%d looks at what nobody uses, %d watches", asked-before, watched)
		}
		p.end()
	})
}
