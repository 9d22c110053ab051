//go:build controllers

package statuses

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
	"github.com/deployster-go/deployster/internal/waittest"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
	"github.com/deployster-go/deployster/pipeline/promotion/object/recording"
)

var record = flag.Bool("record", false, "write the recordings that the tests of package object replay")

const recorded = "../../pipeline/promotion/object/testdata/recorded"

// settle is for how long a reading may be wrong: a stage believes what lasts longer.
const settle = 2 * time.Second

// recorder writes down what becomes of an object. The API server numbers all writes, so what truly
// runs and what a controller says of it are in their true order.
type recorder struct {
	testing.TB
	*client
	namespace string

	name, about, controller string
	object                  object.Object

	resolve func(version string) []string // the revisions that have a version; nil is the version itself
	names   []string                      // names that only this machine has, each with one for the recording

	mu     sync.Mutex
	events []event
	live   fields
	broken error
	wanted float64 // the generation that the scenario declared last
	newest uint64
	quiet  chan struct{} // gets one for each write
}

type event struct {
	version uint64
	at      time.Time
	step    recording.Step
}

// newRecorder records a scenario with a namespace of its own.
func newRecorder(t testing.TB, c *client, name, controller, about string) *recorder {
	return &recorder{TB: t, client: c, namespace: c.Namespace(t, ""), name: name, about: about, controller: controller, quiet: make(chan struct{}, 1)}
}

// follows begins to record an object at a path of the API.
func (r *recorder) follows(path string, o object.Object) {
	r.Helper()
	r.Cleanup(func() { // as long as its controller runs, which has to let it go
		r.Ask(r, http.MethodDelete, path, nil)
		kubetest.AwaitGone(r, r.Cluster, path)
	})
	o.Cluster, o.Namespace, o.Name = "dev", "shop", path[strings.LastIndexByte(path, '/')+1:]
	r.object = o
	r.observe(path, func(live fields) *recording.Step {
		r.live = live
		if live == nil {
			return &recording.Step{Gone: true}
		}
		return &recording.Step{Object: pick(live, kept).(fields)}
	})
}

// truth records which version runs well, by what a workload is after each write of it.
func (r *recorder) truth(path string, well func(live fields) string) {
	r.Helper()
	r.observe(path, func(live fields) *recording.Step {
		versions := []string{}
		if version := well(live); version != "" {
			versions = append(versions, version)
		}
		return &recording.Step{Well: &versions}
	})
}

func (r *recorder) observe(path string, of func(live fields) *recording.Step) {
	r.Helper()
	r.watches(path, func(ctx context.Context, written func(version string, of func() *recording.Step)) error {
		return r.follow(ctx, path, func(live fields, version string) {
			written(version, func() *recording.Step { return of(live) })
		})
	})
}

// truthOfPods records which revision runs well, by the Pods of a workload: all of them are ready and
// of one image, and there are as many as wanted.
func (r *recorder) truthOfPods(wanted int) {
	r.Helper()
	path := "/api/v1/namespaces/" + r.namespace + "/pods"
	pods := map[string]fields{}
	r.watches(path, func(ctx context.Context, written func(version string, of func() *recording.Step)) error {
		return r.followAll(ctx, path, "labelSelector=app%3Dshop", func(name string, live fields, version string) {
			written(version, func() *recording.Step {
				delete(pods, name)
				if live != nil && text(live, "metadata", "deletionTimestamp") == "" {
					pods[name] = live
				}
				well := []string{}
				for _, pod := range pods {
					image := text(pod["spec"].(fields)["containers"].([]any)[0], "image")
					tag := image[strings.LastIndexByte(image, ':')+1:]
					if text(condition(pod, "Ready"), "status") != "True" || len(pods) != wanted || len(well) > 0 && well[0] != tag {
						return &recording.Step{Well: &[]string{}}
					}
					well = []string{tag}
				}
				return &recording.Step{Well: &well}
			})
		})
	})
}

// watches notes what a watch tells until the test ends. written is called with each write, and of
// with the recorder locked.
func (r *recorder) watches(path string, watch func(ctx context.Context, written func(version string, of func() *recording.Step)) error) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan struct{})
	r.Cleanup(func() {
		cancel()
		<-ended
	})
	go func() {
		defer close(ended)
		err := watch(ctx, func(version string, of func() *recording.Step) {
			now := time.Now()
			number, err := strconv.ParseUint(version, 10, 64)
			if err != nil {
				r.Errorf("%s: version %q is no number", path, version)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.newest = max(r.newest, number)
			r.events = append(r.events, event{number, now, *of()})
			select {
			case r.quiet <- struct{}{}:
			default:
			}
		})
		if ctx.Err() == nil {
			r.mu.Lock()
			r.broken = fmt.Errorf("watch %s: %w", path, err)
			r.mu.Unlock()
		}
	}()
}

// did notes what the scenario does next.
func (r *recorder) did(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event{r.newest, time.Now(), recording.Step{Did: what}})
}

// declares makes the object as it is declared, or changes it to that.
func (r *recorder) declares(path string, object fields) {
	r.Helper()
	live := r.apply(r, path, object)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = generation(live)
}

func generation(live fields) float64 {
	metadata, _ := live["metadata"].(fields)
	n, _ := metadata["generation"].(float64)
	return n
}

// until waits until the object is as its controller should make it, of what was declared last.
func (r *recorder) until(what string, is func(live fields) bool) {
	r.Helper()
	kubetest.Until(r, r.name+": "+what, func() (string, bool) {
		r.mu.Lock()
		live, wanted, broken := r.live, r.wanted, r.broken
		r.mu.Unlock()
		require.NoError(r, broken)
		said, _ := json.Marshal(pick(live, kept))
		return string(said), live != nil && generation(live) >= wanted && is(live)
	})
}

// rests waits until nothing was written for a while.
func (r *recorder) rests() {
	late := time.After(waittest.Limit)
	for {
		select {
		case <-r.quiet:
		case <-time.After(1500 * time.Millisecond):
			return
		case <-late:
			r.Fatal("the object never rests")
		}
	}
}

// ends ends the recording: well are the revisions that ran well at some time, and reading is how the
// object is read at the end.
func (r *recorder) ends(reading string, well ...string) {
	r.Helper()
	r.rests()
	r.mu.Lock()
	events := slices.Clone(r.events)
	r.mu.Unlock()
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.version, b.version), cmp.Compare(rank(a), rank(b)))
	})
	all := &recording.Recording{About: r.about, Controller: r.controller, Object: r.object, EverWell: well, Ends: reading}
	require.NotEmpty(r, events)
	begun := events[0].at
	for _, e := range events {
		begun = earlier(begun, e.at)
	}
	var written, truth *recording.Step
	at := int64(0)
	for _, e := range events {
		s := r.plain(e.step)
		at = max(at, e.at.Sub(begun).Milliseconds()) // watches may be told a little later than others
		s.At = at
		switch {
		case s.Well != nil:
			if r.resolve != nil && len(*s.Well) > 0 {
				revisions := append([]string{}, r.resolve((*s.Well)[0])...)
				s.Well = &revisions
			}
			if truth != nil && slices.Equal(*truth.Well, *s.Well) || truth == nil && len(*s.Well) == 0 {
				continue
			}
			truth = &s
		case s.Did == "":
			if written != nil && written.Gone == s.Gone && reflect.DeepEqual(written.Object, s.Object) {
				continue
			}
			written = &s
		}
		all.Steps = append(all.Steps, s)
	}
	got := all.Replay()
	r.Logf("%s: early %d ms, late %d ms\n%s", r.name, got.Early, got.Late, all.Table())
	if *record {
		require.NoError(r, all.Save(filepath.Join(recorded, r.name+".jsonl")))
	}
	require.NotEmpty(r, got.Readings)
	assert.Less(r, got.Early, settle.Milliseconds(), "a revision is read as well before it is")
	assert.False(r, got.Open, "the reading at the end is wrong")
	for _, one := range got.Readings {
		if recording.Counts(one.Reading) {
			assert.Contains(r, well, one.Revision, "it was never well, and is read as well at %d ms", all.Steps[one.Step].At)
		}
	}
	assert.Equal(r, reading, recording.Text(got.Readings[len(got.Readings)-1].Reading), "the reading at the end")
}

// rank has what is true since a write come before what the object says since then, if both are of one write.
func rank(e event) int {
	switch {
	case e.step.Did != "":
		return 0
	case e.step.Well != nil:
		return 1
	}
	return 2
}

// What controllers say has addresses of this machine and names of directories in it.
var (
	ofThisMachine = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)
	atRandom      = regexp.MustCompile(`(/tmp/kustomization|/dev/shm)[-/][0-9]+`)
)

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// plain is a step without the names that only this cluster has.
func (r *recorder) plain(s recording.Step) (plain recording.Step) {
	encoded, err := json.Marshal(s)
	require.NoError(r, err)
	names := strings.NewReplacer(append([]string{r.namespace, "shop", r.Registry, "registry.example"}, r.names...)...)
	said := ofThisMachine.ReplaceAllString(names.Replace(string(encoded)), "source.example")
	require.NoError(r, json.Unmarshal([]byte(atRandom.ReplaceAllString(said, "$1")), &plain))
	return plain
}

// kept are the fields that package object reads, and some that tell people why. true is all of one.
var kept = fields{
	"metadata": fields{"generation": true, "deletionTimestamp": true},
	"spec": fields{
		"suspend": true, "interval": true, "path": true, "replicas": true, "paused": true, "updateStrategy": true, "syncPolicy": true, "source": true, "sources": true,
		"template": fields{"spec": fields{"containers": fields{"image": true}}}, "concurrencyPolicy": true,
		"jobTemplate": fields{"spec": fields{"template": fields{"spec": fields{"containers": fields{"image": true}}}}},
	},
	"operation": true,
	"status": fields{
		"observedGeneration": true, "lastAppliedRevision": true, "lastAttemptedRevision": true, "lastAttemptedRevisionDigest": true,
		"conditions": fields{"type": true, "status": true, "reason": true, "message": true, "observedGeneration": true},
		"history":    fields{"deployedAt": true, "chartVersion": true, "status": true, "ociDigest": true, "version": true, "revision": true, "revisions": true, "id": true},
		"ready":      true, "active": true,
		"replicas": true, "updatedReplicas": true, "readyReplicas": true, "availableReplicas": true, "unavailableReplicas": true, "currentRevision": true, "updateRevision": true,
		"desiredNumberScheduled": true, "updatedNumberScheduled": true, "numberAvailable": true, "numberReady": true,
		"phase": true, "message": true, "abort": true, "currentStepIndex": true, "currentPodHash": true, "stableRS": true,
		"sync":           fields{"status": true, "revision": true, "revisions": true, "comparedTo": fields{"source": true, "sources": true}},
		"health":         fields{"status": true, "message": true},
		"reconciledAt":   true,
		"operationState": fields{"finishedAt": true, "phase": true, "message": true, "syncResult": fields{"revision": true, "revisions": true}},
	},
}

// pick is what of a value is kept.
func pick(of any, keep any) any {
	names, some := keep.(fields)
	if !some {
		return of
	}
	switch of := of.(type) {
	case []any:
		all := []any{}
		for _, one := range of {
			if one = pick(one, keep); !reflect.DeepEqual(one, fields{}) {
				all = append(all, one)
			}
		}
		return all
	case fields:
		all := fields{}
		for name, keep := range names {
			if value, has := of[name]; has {
				all[name] = pick(value, keep)
			}
		}
		return all
	}
	return of
}

// text is the text at some keys.
func text(of any, keys ...string) string {
	for _, key := range keys {
		object, _ := of.(fields)
		of = object[key]
	}
	if of == nil {
		return ""
	}
	return fmt.Sprint(of)
}

// condition is a condition of an object.
func condition(live fields, name string) fields {
	status, _ := live["status"].(fields)
	all, _ := status["conditions"].([]any)
	for _, one := range all {
		if text(one, "type") == name {
			return one.(fields)
		}
	}
	return nil
}
