package promotions_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
		switch {
		case f.gone[o.Cluster]:
			seen(nil, fmt.Errorf("cluster %s does not answer", o.Cluster))
		case f.runs[o.Cluster] == "":
			seen(nil, nil)
		default:
			seen(map[string]any{"status": map[string]any{"lastAppliedRevision": f.runs[o.Cluster], "conditions": []any{map[string]any{"type": "Ready", "status": status}}}}, nil)
		}
	}
	f.viewers[n]()
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.viewers, n)
	}
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
func (r *receiver) inClusters(t *testing.T, test func(*world, *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, f := newWorld(t, reconciletest.InMemory(t)), &fleet{runs: map[string]string{"dev": "1", "east": "0", "west": "0"}, unwell: map[string]bool{}, gone: map[string]bool{}, viewers: map[int]func(){}}
		w.workspace, w.clusters = r.workspace, f
		w.stages = []string{"dev", "prod"}
		of := func(cluster string) object.Object {
			return object.Object{Cluster: cluster, Kind: "Kustomization", Namespace: "flux-system", Name: "shop"}
		}
		w.define(single(), r.asks, func(d *definition.Definition) {
			d.Stages[0].Environment, d.Stages[0].Objects = "objects:shop/dev", []object.Object{of("dev")}
			d.Stages[1].Environment, d.Stages[1].Objects = "objects:shop/prod", []object.Object{of("east"), of("west")}
		})
		test(w, f)
		if len(f.viewers) > 0 {
			t.Errorf("%d objects are watched by nobody", len(f.viewers))
		}
	})
}

func TestARevisionGoesThroughClusters(t *testing.T) {
	r := newReceiver(t)
	r.inClusters(t, func(w *world, f *fleet) {
		p := w.start()
		<-time.After(time.Minute)
		asked := r.take()
		if len(asked) != 1 || asked[0].Revision != "1" || asked[0].Environment != "" || strings.Join(asked[0].Objects, " ") != "east/flux-system/Kustomization/shop west/flux-system/Kustomization/shop" {
			t.Fatalf("asked: %+v\n%s", asked, w.story())
		}
		f.set(func() { f.runs["east"] = "1" })
		<-time.After(time.Second)
		if n := w.count(promotion.StageFinished, "prod", "1"); n != 0 {
			t.Errorf("one of two clusters is all of them:\n%s", w.story())
		}
		f.set(func() { f.runs["west"] = "1" })
		<-time.After(time.Second)
		if w.count(promotion.StageFinished, "prod", "1") != 1 || w.count(promotion.RunFinished, "", "1") != 1 {
			t.Errorf("it is there, and that is not noticed:\n%s", w.story())
		}
		n := w.count(promotion.HostsObserved, "prod", "")
		for range 10 {
			f.set(func() {})
			<-time.After(time.Hour)
		}
		if again := w.count(promotion.HostsObserved, "prod", ""); again != n {
			t.Errorf("nothing has changed, and %d events say so", again-n)
		}
		p.end()
		synctest.Wait()
	})
}

func TestAClusterThatIsGoneIsNeitherHealthyNorFailed(t *testing.T) {
	r := newReceiver(t)
	r.inClusters(t, func(w *world, f *fleet) {
		f.set(func() { f.gone["west"] = true })
		p := w.start()
		<-time.After(time.Minute)
		if asked := r.take(); len(asked) != 0 {
			t.Errorf("asked for a cluster that is gone: %+v", asked)
		}
		if why := w.explain("prod"); why.Code != promotion.Unobserved || !strings.Contains(why.Message, "cluster west does not answer") {
			t.Errorf("it is %s: %s", why.Code, why.Message)
		}
		f.set(func() { f.gone["west"] = false })
		<-time.After(time.Minute)
		if asked := r.take(); len(asked) != 1 {
			t.Fatalf("asked: %+v\n%s", asked, w.story())
		}

		// What is under way has not failed while nobody knows, however long that takes.
		f.set(func() { f.gone["east"] = true })
		<-time.After(100 * time.Hour)
		if n := w.count(promotion.StageFailed, "prod", "1"); n != 0 {
			t.Errorf("it has failed, and nobody knows:\n%s", w.story())
		}
		f.set(func() { f.gone["east"], f.runs["east"], f.runs["west"] = false, "1", "1" })
		<-time.After(time.Second)
		if w.count(promotion.RunFinished, "", "1") != 1 {
			t.Errorf("it is there, and that is not noticed:\n%s", w.story())
		}

		// The first cluster decides what is current, and nobody does while it is gone.
		f.set(func() { f.gone["dev"], f.runs["dev"] = true, "2" })
		<-time.After(time.Minute)
		if why := w.explain("dev"); why.Code != promotion.Unobserved {
			t.Errorf("dev is %s: %s", why.Code, why.Message)
		}
		f.set(func() { f.gone["dev"], f.unwell["dev"] = false, true })
		<-time.After(time.Minute)
		if why := w.explain("dev"); why.Code != promotion.Unhealthy || len(r.take()) != 0 {
			t.Errorf("dev is %s: %s", why.Code, why.Message)
		}
		f.set(func() { f.unwell["dev"] = false })
		<-time.After(time.Minute)
		if asked := r.take(); len(asked) != 1 || asked[0].Revision != "2" {
			t.Errorf("asked: %+v\n%s", asked, w.story())
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
		if len(f.viewers) != 3 {
			t.Fatalf("%d objects are watched", len(f.viewers))
		}
		w.proposes(promotion.Delete{Cancel: true, ID: "delete"})
		<-time.After(time.Minute)
		if len(f.viewers) != 0 {
			t.Errorf("%d objects are watched that nobody uses", len(f.viewers))
		}
		p.end()
		synctest.Wait()
	})
}

// Who reaches no cluster promotes nothing by what another process saw.
func TestWithoutClustersObjectsAreUnknown(t *testing.T) {
	r := newReceiver(t)
	r.inClusters(t, func(w *world, _ *fleet) {
		w.clusters = nil
		if err := w.untilIdle(w.log); err != nil {
			t.Error(err)
		}
		if asked := r.take(); len(asked) != 0 {
			t.Errorf("asked: %+v", asked)
		}
	})
}
