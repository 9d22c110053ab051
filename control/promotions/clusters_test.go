package promotions_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/internal/kubewatch"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// fleet is some clusters, with an object of Flux each.
type fleet struct {
	mu      sync.Mutex
	runs    map[string]string // by cluster; "" is that there is no object
	unwell  map[string]bool
	at      string // the cluster whose controller is at work
	gone    map[string]bool
	viewers map[int]func()
	next    int
}

// Watch implements clusters.Watcher.
func (f *fleet) Watch(o kubewatch.Object, seen func(map[string]any, error)) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	n := f.next
	f.viewers[n] = func() {
		status := map[bool]string{false: "True", true: "False"}[f.unwell[o.Cluster]]
		reason := "Tested"
		if f.at == o.Cluster {
			status, reason = "Unknown", "Progressing"
		}
		switch {
		case f.gone[o.Cluster]:
			seen(nil, fmt.Errorf("cluster %s does not answer", o.Cluster))
		case f.runs[o.Cluster] == "":
			seen(nil, nil)
		default:
			seen(map[string]any{"status": map[string]any{"observedGeneration": int64(0), "lastAppliedRevision": f.runs[o.Cluster], "conditions": []any{map[string]any{"type": "Ready", "status": status, "reason": reason}}}}, nil)
		}
	}
	f.viewers[n]()
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.viewers, n)
	}
}

// watched is how many objects are watched.
func (f *fleet) watched() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.viewers)
}

// set changes something, and tells everybody.
func (f *fleet) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	for _, tell := range f.viewers {
		tell()
	}
}

// inClusters is a world of an object in the cluster dev, and of one in each of east and west, to
// which a webhook brings revisions.
func (r *receiver) inClusters(t *testing.T, test func(*world, *fleet), change ...func(*definition.Definition)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, f := newWorld(t, reconciletest.InMemory(t)), &fleet{runs: map[string]string{"dev": "1", "east": "0", "west": "0"}, unwell: map[string]bool{}, gone: map[string]bool{}, viewers: map[int]func(){}}
		w.workspace, w.clusters = r.workspace, f
		w.stages = []string{"dev", "prod"}
		of := func(cluster string) object.Object {
			return object.Object{Cluster: cluster, Kind: "Kustomization", Namespace: "flux-system", Name: "shop"}
		}
		w.define(single(), append([]func(*definition.Definition){r.asks, func(d *definition.Definition) {
			d.Stages[0].Environment, d.Stages[0].Objects = "objects:shop/dev", []object.Object{of("dev")}
			d.Stages[1].Environment, d.Stages[1].Objects = "objects:shop/prod", []object.Object{of("east"), of("west")}
		}}, change...)...)
		test(w, f)
		assert.Zero(t, f.watched())
	})
}

func TestARevisionGoesThroughClusters(t *testing.T) {
	r := newReceiver(t)
	r.inClusters(t, func(w *world, f *fleet) {
		p := w.start()
		<-time.After(time.Minute)
		asked := r.take()
		if len(asked) != 1 || asked[0].Revision != "1" || asked[0].Environment != "" || strings.Join(asked[0].Objects, " ") != "east/flux-system/Kustomization/shop west/flux-system/Kustomization/shop" {
			t.Fatalf("asked: %+v", asked)
		}
		f.set(func() { f.runs["east"] = "1" })
		<-time.After(time.Second)
		assert.Equal(t, 0, w.count(promotion.StageFinished, "prod", "1"), "one of two clusters is all of them")
		f.set(func() { f.runs["west"] = "1" })
		<-time.After(time.Second)
		assert.Equal(t, 0, w.count(promotion.StageFinished, "prod", "1"), "it may be written again")
		<-time.After(1500 * time.Millisecond)
		w.finished("1", "prod")
		n := w.count(promotion.HostsObserved, "prod", "")
		for range 10 {
			f.set(func() {})
			<-time.After(time.Hour)
		}
		assert.Equal(t, n, w.count(promotion.HostsObserved, "prod", ""), "nothing has changed")
		p.end()
		synctest.Wait()
	})
}

// Controllers are at work at each interval, also where there is nothing to do: that is no news, and what
// is to be well for longer than an interval is. One that does not end its work is news.
func TestThatAControllerIsAtWorkIsNoNews(t *testing.T) {
	r := newReceiver(t)
	r.inClusters(t, func(w *world, f *fleet) {
		p := w.start()
		<-time.After(time.Minute)
		n := w.count(promotion.HostsObserved, "dev", "")
		for range 10 {
			f.set(func() { f.at = "dev" })
			<-time.After(30 * time.Second)
			f.set(func() { f.at = "" })
			<-time.After(9 * time.Minute)
		}
		require.Equal(t, n, w.count(promotion.HostsObserved, "dev", ""))
		assert.NotEqual(t, 0, n)
		if asked := r.take(); len(asked) == 0 || asked[0].Revision != "1" {
			t.Errorf("it has settled, and what was asked is %+v", asked)
		}
		f.set(func() { f.at = "dev" })
		<-time.After(time.Minute + 59*time.Second)
		assert.NotEqual(t, promotion.Unhealthy, w.explain("dev").Code)
		<-time.After(2 * time.Second)
		require.Equal(t, n+1, w.count(promotion.HostsObserved, "dev", ""))
		assert.Equal(t, promotion.Unhealthy, w.explain("dev").Code, "its work does not end")

		// However often it is well and is not, that is seldom news; another revision always is.
		<-time.After(time.Minute)
		n = w.count(promotion.HostsObserved, "dev", "")
		for i := range 100 {
			f.set(func() { f.at, f.unwell["dev"] = "", i%2 == 0 })
			<-time.After(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, w.count(promotion.HostsObserved, "dev", "")-n, 3)
		n = w.count(promotion.HostsObserved, "dev", "")
		f.set(func() { f.runs["dev"] = "2" })
		<-time.After(time.Millisecond)
		assert.Equal(t, n+1, w.count(promotion.HostsObserved, "dev", ""))
		p.end()
		synctest.Wait()
	}, func(d *definition.Definition) { d.Promotion.SettleFor = definition.Duration(time.Hour) })
}

func TestAClusterThatIsGoneIsNeitherHealthyNorFailed(t *testing.T) {
	r := newReceiver(t)
	r.inClusters(t, func(w *world, f *fleet) {
		f.set(func() { f.gone["west"] = true })
		p := w.start()
		<-time.After(time.Minute)
		assert.Len(t, r.take(), 0, "asked for a cluster that is gone")
		w.says("prod", promotion.Unobserved, "cluster west does not answer")
		f.set(func() { f.gone["west"] = false })
		<-time.After(time.Minute)
		require.Len(t, r.take(), 1)

		// What is under way has not failed while nobody knows, however long that takes.
		f.set(func() { f.gone["east"] = true })
		<-time.After(5 * time.Hour) // a try has one
		assert.Equal(t, 0, w.count(promotion.StageFailed, "prod", "1"), "it has failed, and nobody knows")
		f.set(func() { f.gone["east"], f.runs["east"], f.runs["west"] = false, "1", "1" })
		<-time.After(3 * time.Second)
		assert.Equal(t, 1, w.count(promotion.RunFinished, "", "1"), "it is there, and that is not noticed")

		// The first cluster decides what is current, and nobody does while it is gone.
		f.set(func() { f.gone["dev"], f.runs["dev"] = true, "2" })
		<-time.After(time.Minute)
		w.says("dev", promotion.Unobserved, "")
		f.set(func() { f.gone["dev"], f.unwell["dev"] = false, true })
		<-time.After(time.Minute)
		require.Equal(t, promotion.Unhealthy, w.explain("dev").Code)
		assert.Empty(t, r.take())
		f.set(func() { f.unwell["dev"] = false })
		<-time.After(time.Minute)
		if asked := r.take(); len(asked) != 1 || asked[0].Revision != "2" {
			t.Errorf("asked: %+v", asked)
		}
		p.end()
		synctest.Wait()
	})
}

func TestObjectsOfAPipelineThatIsDeletedAreNotWatched(t *testing.T) {
	r := newReceiver(t)
	r.inClusters(t, func(w *world, f *fleet) {
		p := w.start()
		<-time.After(time.Minute)
		require.Equal(t, 3, f.watched(), "objects are watched")
		w.proposes(promotion.Delete{Cancel: true, ID: "delete"})
		<-time.After(time.Minute)
		assert.Equal(t, 0, f.watched(), "objects are watched that nobody uses")
		p.end()
		synctest.Wait()
	})
}

// Who reaches no cluster promotes nothing by what another process saw.
func TestWithoutClustersObjectsAreUnknown(t *testing.T) {
	r := newReceiver(t)
	r.inClusters(t, func(w *world, _ *fleet) {
		w.clusters = nil
		assert.NoError(t, w.untilIdle(w.log))
		assert.Empty(t, r.take())
	})
}
