package clusters_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/control/clusters"
	"github.com/deployster-go/deployster/internal/kubewatch"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// written is an object that a test writes, in time that only passes when all wait.
type written struct {
	*testing.T
	mu    sync.Mutex
	seen  func(map[string]any, error)
	began time.Time
	told  []string // since it began, and what the stage runs then
	stage func(place string) (promotion.Sighting, bool)
}

// Watch implements clusters.Watcher.
func (w *written) Watch(_ kubewatch.Object, seen func(map[string]any, error)) (leave func()) {
	w.seen = seen
	return func() {}
}

// writes writes the object, after some time.
func (w *written) writes(after time.Duration, object map[string]any) {
	<-time.After(after)
	w.seen(object, nil)
	synctest.Wait()
}

// observed runs a test whose stage is one object.
func observed(t *testing.T, of object.Object, settle time.Duration, test func(w *written)) {
	observedStage(t, clusters.Stage{Objects: []object.Object{of}, Settle: settle}, test)
}

func observedStage(t *testing.T, of clusters.Stage, test func(w *written)) {
	synctest.Test(t, func(t *testing.T) {
		w := &written{T: t, began: time.Now()}
		var o *clusters.Observed
		ctx, end := context.WithCancel(t.Context())
		o = clusters.New(clusters.Options{
			Watcher: w, Go: func(job func(context.Context) func()) func() {
				go job(ctx)
				return end
			},
			Post: func(f func()) {
				w.mu.Lock()
				defer w.mu.Unlock()
				f()
			},
			Changed: func(place string) {
				seen, _ := o.Seen(place)
				w.told = append(w.told, time.Since(w.began).String()+" "+words(seen))
			},
		})
		of.Place, w.stage = "dev", o.Seen
		o.Use(of)
		synctest.Wait()
		test(w)
		o.Leave("dev")
		synctest.Wait()
	})
}

// tells wants the stage to have been told to run this since the last time, and nothing else.
func (w *written) tells(want ...string) { assert.Equal(w, want, w.forgets()) }

// forgets returns what the stage was told to run, and begins anew.
func (w *written) forgets() (told []string) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	told, w.told = w.told, nil
	return told
}

// sees is what the stage runs now.
func (w *written) sees() promotion.Sighting {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, _ := w.stage("dev")
	return seen
}

var shop = object.Object{Cluster: "dev", Kind: "Kustomization", Namespace: "flux", Name: "shop"}

// flux is a Kustomization that has applied a revision.
func flux(generation, seen int, applied, attempted, ready string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"generation": int64(generation)},
		"status": map[string]any{
			"observedGeneration": int64(seen), "lastAppliedRevision": applied, "lastAttemptedRevision": attempted,
			"conditions": []any{map[string]any{"type": "Ready", "status": ready, "reason": "Tested", "observedGeneration": int64(seen)}},
		},
	}
}

func TestAnObjectIsWellWhenNobodyWritesItForTheSettleTime(t *testing.T) {
	const is = "dev/flux/Kustomization/shop="
	observed(t, shop, 2*time.Second, func(w *written) {
		w.writes(0, flux(1, 1, "1", "1", "True"))
		w.writes(time.Second, flux(1, 1, "1", "1", "True")) // as it was, but it was written
		w.tells()
		<-time.After(10 * time.Second)
		w.tells("3s " + is + "1 all=1")

		// What a later write contradicts was never so.
		w.writes(0, flux(1, 1, "2", "2", "True"))
		w.writes(5*time.Millisecond, flux(1, 1, "2", "3", "False"))
		<-time.After(10 * time.Second)
		w.tells("11s "+is+"2 unwell (it has been well for less than 2s) all=<nil>", "16s "+is+"2 unwell (its condition Ready is False: Tested) all=<nil>")

		// One that is written all the time is well after five times as long.
		for range 20 {
			w.writes(time.Second, flux(1, 1, "3", "3", "True"))
		}
		w.tells("22.005s "+is+"3 unwell (it has been well for less than 2s) all=<nil>", "32.005s "+is+"3 all=3")
	})
}

// A revision that is written into a suspended object is only declared. It settles after somebody has resumed the object.
func TestASuspendedObjectSettlesWhenItIsResumed(t *testing.T) {
	job := object.Object{Cluster: "dev", APIVersion: "batch/v1", Kind: "CronJob", Namespace: "shop", Name: "night", Revision: "{.spec.version}", Ready: "{.status.ok}"}
	live := func(version string, suspend bool) map[string]any {
		return map[string]any{"spec": map[string]any{"version": version, "suspend": suspend}, "status": map[string]any{"ok": "true"}}
	}
	observed(t, job, 2*time.Second, func(w *written) {
		w.writes(0, live("1", false))
		<-time.After(10 * time.Second)
		w.forgets()
		w.writes(0, live("2", true))
		<-time.After(10 * time.Second)
		seen := w.sees()
		assert.True(t, seen.Hosts[0].Suspended && seen.Hosts[0].Declared && !seen.Hosts[0].Unhealthy, "%+v", seen)
		w.writes(0, live("2", false))
		<-time.After(time.Second)
		seen = w.sees()
		assert.True(t, seen.Hosts[0].Declared, "it has not settled: %+v", seen)
		<-time.After(10 * time.Second)
		seen = w.sees()
		assert.True(t, !seen.Hosts[0].Declared && seen.Value == "2", "%+v", seen)
	})
}

// A Pod of a paused workload that is gone is told at once, though nothing else of it has changed.
func TestAPodOfAPausedWorkloadThatIsGoneIsToldAtOnce(t *testing.T) {
	web := object.Object{Cluster: "dev", Kind: "Deployment", Namespace: "shop", Name: "web"}
	paused := func(available int) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"generation": int64(2)},
			"spec":     map[string]any{"paused": true, "replicas": int64(2), "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": "shop:2"}}}}},
			"status":   map[string]any{"observedGeneration": int64(2), "replicas": int64(2), "availableReplicas": int64(available)},
		}
	}
	observed(t, web, time.Second, func(w *written) {
		w.writes(0, paused(2))
		<-time.After(time.Second)
		w.forgets()
		w.writes(0, paused(1))
		w.tells("1s dev/shop/Deployment/web=2 unwell (it is paused: 0 of 2 Pods are of its newest template) all=<nil>")
		assert.Equal(t, "1 of 2 Pods are available", *w.sees().Hosts[0].Fewer)
	})
}

// A controller says at each interval that it is at work: that is no reason to wait without end.
func TestAnObjectSettlesThoughItsControllerIsAtWork(t *testing.T) {
	working := flux(1, 1, "1", "1", "Unknown")
	working["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)["reason"] = "Progressing"
	observed(t, shop, 10*time.Second, func(w *written) {
		w.writes(0, flux(1, 1, "1", "1", "True"))
		for range 6 {
			w.writes(8*time.Second, working)
			w.writes(time.Second, flux(1, 1, "1", "1", "True"))
		}
		<-time.After(2 * time.Second)
		w.tells("56s dev/flux/Kustomization/shop=1 all=1") // of which it said for 6s that it was at work
	})
}

// What its controller is at work on may end otherwise, however long that takes: the object settles when the
// controller says again that it is well, and is at work for two minutes at most.
func TestAnObjectDoesNotSettleWhileItsControllerIsAtWork(t *testing.T) {
	const is = "dev/flux/Kustomization/shop="
	working := flux(1, 1, "1", "1", "Unknown")
	working["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)["reason"] = "Progressing"
	begins := func(w *written) {
		w.writes(0, flux(1, 1, "1", "1", "True"))
		w.writes(time.Second, working)
		<-time.After(time.Minute)
		w.tells()
	}
	observed(t, shop, 2*time.Second, func(w *written) {
		begins(w)
		w.writes(0, flux(1, 1, "1", "1", "False"))
		<-time.After(10 * time.Second)
		w.tells("1m1s " + is + "1 unwell (its condition Ready is False: Tested) all=<nil>")
	})
	observed(t, shop, 2*time.Second, func(w *written) {
		begins(w)
		w.writes(0, flux(1, 1, "1", "1", "True"))
		<-time.After(10 * time.Second)
		w.tells("1m3s " + is + "1 all=1")
	})
	observed(t, shop, 2*time.Second, func(w *written) {
		begins(w)
		w.writes(0, flux(1, 1, "1", "1", "True")) // and a write later it is not
		w.writes(time.Second, flux(1, 1, "1", "1", "False"))
		<-time.After(10 * time.Second)
		w.tells("1m2s " + is + "1 unwell (its condition Ready is False: Tested) all=<nil>")
	})
	observed(t, shop, 2*time.Second, func(w *written) {
		begins(w)
		<-time.After(2 * time.Minute)
		w.tells("2m1s " + is + "1 unwell (its condition Ready is Unknown: Progressing) all=<nil>")
		w.writes(0, flux(1, 1, "1", "1", "True"))
		<-time.After(10 * time.Second)
		w.tells("3m3s " + is + "1 all=1")
	})
}

// That a stage is less than it was is told at once, however short that is; that it is as it was, after a pause.
func TestWhatIsWorseIsToldAtOnce(t *testing.T) {
	observed(t, shop, 0, func(w *written) {
		const is = "dev/flux/Kustomization/shop="
		w.writes(0, flux(1, 1, "1", "1", "True"))
		w.writes(time.Second, flux(1, 1, "1", "1", "False"))
		for range 10 {
			w.writes(100*time.Millisecond, flux(1, 1, "1", "1", "False"))
			w.writes(100*time.Millisecond, flux(1, 1, "1", "1", "True"))
		}
		w.tells("0s "+is+"1 all=1", "1s "+is+"1 unwell (its condition Ready is False: Tested) all=<nil>")
		<-time.After(time.Minute)
		w.tells("6s " + is + "1 all=1")
	})
}

// Where all stages are in one repository, its commits come to all of them: what counts is the value that a
// commit has for the stage.
func TestACommitIsReadForTheValueThatItHas(t *testing.T) {
	const is = "dev/flux/Kustomization/shop="
	has, asked := map[string]string{"aa1": "1", "aa2": "1", "aa3": "2"}, []string{}
	of := shop
	of.Part = object.Path
	stage := clusters.Stage{Objects: []object.Object{of}, Source: &definition.PullRequest{File: "dev.yaml", Value: "tag"}}
	var mu sync.Mutex
	stage.ValueIn = func(_ context.Context, commit string) (string, error) {
		<-time.After(time.Second)
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, commit)
		if has[commit] == "gone" {
			return "", errors.New("connection refused")
		}
		return has[commit], nil
	}
	commits := func(some map[string]string) {
		mu.Lock()
		defer mu.Unlock()
		maps.Copy(has, some)
	}
	at := func(commit, ready string) map[string]any {
		return flux(1, 1, "main@sha1:"+commit, "main@sha1:"+commit, ready)
	}
	observedStage(t, stage, func(w *written) {
		w.writes(0, at("aa1", "True"))
		w.tells()
		w.writes(2*time.Second, at("aa2", "True")) // changes another stage only
		<-time.After(10 * time.Second)
		w.tells("1s " + is + "1 all=1")
		w.writes(0, at("aa3", "True"))
		w.writes(500*time.Millisecond, at("aa3", "False")) // before its value is known
		<-time.After(10 * time.Second)
		w.tells("12.5s "+is+"1 unwell (its condition Ready is False: Tested) all=<nil>", "13s "+is+"2 unwell (its condition Ready is False: Tested) all=<nil>")

		commits(map[string]string{"aa4": "gone", "aa5": ""})
		w.writes(0, at("aa4", "True"))
		<-time.After(5 * time.Second)
		w.tells("23.5s " + is + "? (connection refused) all=<nil>")
		commits(map[string]string{"aa4": "3"})
		<-time.After(time.Minute)
		w.tells("54.5s " + is + "3 all=3")
		w.writes(0, at("aa5", "True"))
		<-time.After(5 * time.Second)
		w.tells("1m28.5s " + is + "? (what commit aa5 has at tag of dev.yaml is no text or number that can be a revision) all=<nil>")
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, []string{"aa1", "aa2", "aa3", "aa4", "aa4", "aa5"}, asked)
	})
}

func TestAnAutoscalerEndsNoSoak(t *testing.T) {
	web := object.Object{Cluster: "dev", Kind: "Deployment", Namespace: "shop", Name: "web"}
	pods := func(generation, seen, wanted, all, updated, available int) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"generation": int64(generation)},
			"spec":     map[string]any{"replicas": int64(wanted), "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": "shop:1"}}}}},
			"status":   map[string]any{"observedGeneration": int64(seen), "replicas": int64(all), "updatedReplicas": int64(updated), "availableReplicas": int64(available)},
		}
	}
	observed(t, web, time.Second, func(w *written) {
		const is = "dev/shop/Deployment/web=1"
		w.writes(0, pods(1, 1, 3, 3, 3, 3))
		<-time.After(time.Minute)
		w.tells("1s " + is + " all=1")
		w.writes(0, pods(2, 1, 5, 3, 3, 3))
		w.tells("1m0s " + is + " changing (its controller has not looked at it since it was changed: it has seen generation 1 of 2) all=<nil>")
		w.writes(time.Second, pods(2, 2, 5, 5, 5, 3))
		<-time.After(10 * time.Second)
		w.tells("1m5s " + is + " changing (3 of 5 Pods are available) all=<nil>")
		w.writes(0, pods(2, 2, 5, 5, 5, 5))
		<-time.After(10 * time.Second)
		w.tells("1m12s " + is + " all=1")

		w.writes(0, pods(3, 3, 9, 9, 9, 5)) // more are wanted, and do not come
		<-time.After(3 * time.Minute)
		w.tells("1m21s "+is+" changing (5 of 9 Pods are available) all=<nil>", "3m21s "+is+" unwell (5 of 9 Pods are available) all=<nil>")
		w.writes(0, pods(4, 4, 5, 5, 5, 5))
		<-time.After(10 * time.Second)
		w.forgets()

		w.writes(0, pods(4, 4, 5, 5, 5, 4)) // one has crashed
		w.tells("4m31s " + is + " unwell (4 of 5 Pods are available) all=<nil>")
		w.writes(time.Second, pods(4, 4, 5, 5, 5, 5))
		<-time.After(10 * time.Second)
		w.forgets()
		w.writes(0, pods(5, 4, 5, 5, 5, 5)) // the same image with other variables
		w.writes(0, pods(5, 5, 5, 6, 1, 5))
		w.tells("4m42s "+is+" changing (its controller has not looked at it since it was changed: it has seen generation 4 of 5) all=<nil>", "4m42s "+is+" unwell (1 of 5 Pods are of its newest template) all=<nil>")
	})
}
