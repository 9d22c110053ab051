package promotions_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

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

// Hosts of a stage that a definition has no more are looked at no more.
func TestTheHostsOfAStageThatIsGoneAreLeftAlone(t *testing.T) {
	throughMachines(t, func(w *world, m *machines) {
		p := w.promotes("1")
		<-time.After(5 * time.Minute)
		w.define(single(), onMachinesAt("canary"))
		<-time.After(5 * time.Minute)
		if _, watched := m.looks(); watched != 2 {
			t.Errorf("of two hosts of one stage %d are watched", watched)
		}
		w.define(single())
		<-time.After(5 * time.Minute)
		before, _ := m.looks()
		<-time.After(time.Hour)
		if asked, watched := m.looks(); asked != before || watched != 0 {
			t.Errorf("%d looks at what nobody uses, %d watches", asked-before, watched)
		}
		p.end()
	})
}
