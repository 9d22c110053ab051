//go:build controllers

package statuses

import (
	"archive/tar"
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// images pushes an image whose Pods only wait, with some tags, and returns its repository.
func images(t testing.TB, c *client, tags ...string) (repository string) {
	t.Helper()
	program, err := os.ReadFile(filepath.Join(c.Programs, "cluster"))
	require.NoError(t, err)
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "pause", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg}))
	_, err = w.Write(program)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil })
	require.NoError(t, err)
	image, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: "amd64", OS: "linux", RootFS: must(image.ConfigFile()).RootFS, Config: v1.Config{Entrypoint: []string{"/pause", "inside", "pause"}},
	})
	require.NoError(t, err)
	repository = c.Registry + "/shop"
	for _, tag := range tags {
		ref, err := name.ParseReference(repository+":"+tag, name.Insecure)
		require.NoError(t, err)
		require.NoError(t, remote.Write(ref, image, remote.WithContext(t.Context())))
	}
	return repository
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// workload is a workload of an image, which is recorded.
type workload struct {
	*recorder
	resource, kind, api, repository string
	replicas                        int
}

func (w *workload) path() string {
	return "/apis/" + w.api + "/namespaces/" + w.namespace + "/" + w.resource + "/shop"
}

// declare makes the workload with an image, or changes it to that.
func (w *workload) declare(did, tag string, change ...func(spec fields)) {
	w.Helper()
	w.did(did)
	labels := fields{"app": "shop"}
	spec := fields{"selector": fields{"matchLabels": labels}, "template": fields{
		"metadata": fields{"labels": labels},
		"spec":     fields{"terminationGracePeriodSeconds": 0, "containers": []any{fields{"name": "shop", "image": w.repository + ":" + tag, "imagePullPolicy": "IfNotPresent"}}},
	}}
	if w.replicas > 0 {
		spec["replicas"] = w.replicas
	}
	if w.kind == "StatefulSet" {
		spec["serviceName"] = "shop"
	}
	for _, c := range change {
		c(spec)
	}
	w.declares(w.path(), fields{"apiVersion": w.api, "kind": w.kind, "metadata": fields{"name": "shop"}, "spec": spec})
}

// seen reports whether the controller has looked at the object as it is now, as far as it says so.
func seen(live fields) bool {
	status, _ := live["status"].(fields)
	_, says := status["observedGeneration"]
	return !says || text(live, "status", "observedGeneration") == text(live, "metadata", "generation")
}

// is waits until the status has some values.
func (w *workload) is(what string, values fields) {
	w.Helper()
	w.until(what, func(live fields) bool {
		for key, value := range values {
			if text(live, "status", key) != text(value) {
				return false
			}
		}
		return seen(live)
	})
}

func paused(spec fields) { spec["paused"] = true }

// aPod is the name of one of the Pods.
func (w *workload) aPod() string {
	w.Helper()
	list := w.must(w, http.MethodGet, "/api/v1/namespaces/"+w.namespace+"/pods", "", nil)
	pods := list["items"].([]any)
	require.NotEmpty(w, pods)
	return text(pods[0], "metadata", "name")
}

func workloads(t *testing.T, c *client, repository string) {
	daemon := fields{"updatedNumberScheduled": 1, "numberAvailable": 1, "desiredNumberScheduled": 1}
	two := fields{"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "unavailableReplicas": ""}
	for name, tell := range map[string]struct {
		kind, resource, about string
		replicas              int
		run                   func(w *workload)
	}{
		"deployment-failing-image": {"Deployment", "deployments", "A good image, one that does not exist, and a good one.", 2, func(w *workload) {
			w.declare("makes it with v1", "v1")
			w.is("v1 is rolled out", two)
			w.declare("has it run an image that does not exist", "missing")
			w.is("the new Pod is there", fields{"updatedReplicas": 1, "unavailableReplicas": 1})
			w.rests()
			w.declare("has it run v2", "v2")
			w.is("v2 is rolled out", two)
			w.ends("v2", "v1", "v2")
		}},
		"deployment-rolled-back": {"Deployment", "deployments", "A rollout is taken back before it is done.", 2, func(w *workload) {
			w.declare("makes it with v1", "v1")
			w.is("v1 is rolled out", two)
			w.declare("has it run v2, whose Pods are available after 5s", "v2", slowly)
			w.is("a new Pod is there", fields{"updatedReplicas": 1})
			w.declare("has it run v1 again", "v1")
			w.is("v1 is rolled out", two)
			w.ends("v1", "v1")
		}},
		"deployment-recreated": {"Deployment", "deployments", "All Pods are replaced at once.", 2, func(w *workload) {
			recreate := func(spec fields) { spec["strategy"] = fields{"type": "Recreate"} }
			w.declare("makes it with v1", "v1", recreate)
			w.is("v1 is rolled out", two)
			w.declare("has it run v2", "v2", recreate)
			w.is("v2 is rolled out", two)
			w.ends("v2", "v1", "v2")
		}},
		"deployment-deadline": {"Deployment", "deployments", "The Pods of a rollout do not start before its deadline, and then it gets a good image.", 2, func(w *workload) {
			soon := func(spec fields) { spec["progressDeadlineSeconds"] = 4 }
			w.declare("makes it with v1", "v1", soon)
			w.is("v1 is rolled out", two)
			w.declare("has it run an image that does not exist", "missing", soon)
			w.until("its deadline is over", func(live fields) bool { return seen(live) && text(condition(live, "Progressing"), "status") == "False" })
			w.rests()
			w.declare("has it run v2", "v2", soon)
			w.is("v2 is rolled out", two)
			w.ends("v2", "v1", "v2")
		}},
		"deployment-paused": {"Deployment", "deployments", "It gets an image while it is paused, and goes on.", 2, func(w *workload) {
			w.declare("makes it with v1", "v1")
			w.is("v1 is rolled out", two)
			w.declare("pauses it, and has it run v2", "v2", paused)
			w.until("it has seen that", seen)
			w.rests()
			w.declare("has it go on", "v2")
			w.is("v2 is rolled out", two)
			w.ends("v2", "v1", "v2")
		}},
		"deployment-paused-loses-a-pod": {"Deployment", "deployments", "It gets an image while it is paused, loses a Pod, and goes on.", 2, func(w *workload) {
			w.declare("makes it with v1", "v1")
			w.is("v1 is rolled out", two)
			w.rests()
			w.declare("pauses it, and has it run v2", "v2", paused)
			w.until("it has seen that", seen)
			w.rests()
			w.did("removes a Pod, which is made anew")
			w.Ask(w, "DELETE", "/api/v1/namespaces/"+w.namespace+"/pods?labelSelector=app%3Dshop&fieldSelector=metadata.name%3D"+w.aPod(), nil)
			w.is("it has one Pod that is available", fields{"availableReplicas": 1})
			w.is("it has both again", fields{"availableReplicas": 2})
			w.rests()
			w.declare("has it go on", "v2")
			w.is("v2 is rolled out", two)
			w.ends("v2", "v1", "v2")
		}},
		"statefulset-rolling": {"StatefulSet", "statefulsets", "Its Pods are replaced one after the other.", 2, func(w *workload) {
			w.declare("makes it with v1", "v1")
			w.is("v1 is rolled out", two)
			w.declare("has it run v2", "v2")
			w.is("v2 is rolled out", two)
			w.until("v2 is current", func(live fields) bool {
				return text(live, "status", "currentRevision") == text(live, "status", "updateRevision")
			})
			w.ends("v2", "v1", "v2")
		}},
		"deployment-scaled": {"Deployment", "deployments", "It is scaled to none, and back.", 2, func(w *workload) {
			w.declare("makes it with v1", "v1")
			w.is("v1 is rolled out", two)
			w.declare("scales it to none", "v1", func(spec fields) { spec["replicas"] = 0 })
			w.is("it has no Pods", fields{"replicas": ""})
			w.declare("scales it to two", "v1")
			w.is("v1 is rolled out", two)
			w.ends("v1", "v1")
		}},
		"statefulset-failing-image": {"StatefulSet", "statefulsets", "A good image, one that does not exist, and a good one for which people remove the broken Pod.", 2, func(w *workload) {
			w.declare("makes it with v1", "v1")
			w.is("v1 is rolled out", two)
			w.declare("has it run an image that does not exist", "missing")
			w.is("a Pod fails", fields{"updatedReplicas": 1, "availableReplicas": 1})
			w.rests()
			w.declare("has it run v2", "v2")
			w.did("removes the broken Pod")
			w.Ask(w, "DELETE", "/api/v1/namespaces/"+w.namespace+"/pods/shop-1", nil)
			w.is("v2 is rolled out", two)
			w.until("v2 is current", func(live fields) bool {
				return text(live, "status", "currentRevision") == text(live, "status", "updateRevision")
			})
			w.ends("v2", "v1", "v2")
		}},
		"statefulset-on-delete": {"StatefulSet", "statefulsets", "People remove its Pods one after the other.", 2, func(w *workload) {
			onDelete := func(spec fields) { spec["updateStrategy"] = fields{"type": "OnDelete"} }
			w.declare("makes it with v1", "v1", onDelete)
			w.is("v1 is rolled out", two)
			w.declare("has it run v2", "v2", onDelete)
			w.is("it has seen that", fields{"updatedReplicas": ""})
			for i, pod := range []string{"shop-0", "shop-1"} {
				w.did("removes the Pod " + pod)
				w.Ask(w, "DELETE", "/api/v1/namespaces/"+w.namespace+"/pods/"+pod, nil)
				w.is("it is replaced", fields{"updatedReplicas": i + 1, "availableReplicas": 2})
			}
			w.ends("v2", "v1", "v2")
		}},
		"daemonset-failing-image": {"DaemonSet", "daemonsets", "A good image, one that does not exist, and a good one.", 0, func(w *workload) {
			w.declare("makes it with v1", "v1")
			w.is("v1 is rolled out", daemon)
			w.declare("has it run an image that does not exist", "missing")
			w.is("its Pod fails", fields{"updatedNumberScheduled": 1, "numberAvailable": ""})
			w.rests()
			w.declare("has it run v2", "v2")
			w.is("v2 is rolled out", daemon)
			w.ends("v2", "v1", "v2")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &workload{newRecorder(t, c, name, "kube-controller-manager "+kubernetes(t), tell.about), tell.resource, tell.kind, "apps/v1", repository, tell.replicas}
			w.follows(w.path(), object.Object{Kind: tell.kind})
			w.truthOfPods(max(tell.replicas, 1))
			tell.run(w)
		})
	}
}

// batches records CronJobs and Jobs, whose objects say nothing of a revision but what is declared.
func batches(t *testing.T, c *client, repository string) {
	const image = "{.spec.template.spec.containers[0].image}"
	pod := func(tag string) fields {
		return fields{"metadata": fields{"labels": fields{"app": "shop"}}, "spec": fields{
			"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": []any{fields{"name": "shop", "image": repository + ":" + tag, "imagePullPolicy": "IfNotPresent"}},
		}}
	}
	for name, tell := range map[string]struct {
		about, kind, resource string
		object                object.Object
		run                   func(w *workload, declare func(did, tag string, suspend bool))
	}{
		"cronjob-suspended": {"It gets an image while it is suspended, and is resumed.", "CronJob", "cronjobs", object.Object{
			APIVersion: "batch/v1", Kind: "CronJob", Revision: "{.spec.jobTemplate.spec.template.spec.containers[0].image}", Part: object.Tag, Ready: "{.spec.concurrencyPolicy}=Forbid",
		}, func(w *workload, declare func(did, tag string, suspend bool)) {
			var last string // the tag that its next Job has
			w.truth(w.path(), func(live fields) string {
				if suspend := text(live, "spec", "suspend"); live != nil && suspend != "true" {
					image := text(live["spec"].(fields)["jobTemplate"].(fields)["spec"].(fields)["template"].(fields)["spec"].(fields)["containers"].([]any)[0], "image")
					last = image[strings.LastIndexByte(image, ':')+1:]
				}
				return last
			})
			declare("makes it with v1", "v1", false)
			w.rests()
			declare("suspends it, and has it run v2", "v2", true)
			w.rests()
			declare("has it run v3", "v3", true)
			w.rests()
			declare("resumes it", "v3", false)
			w.ends("v3", "v1", "v3")
		}},
		"job-suspended": {"It is made suspended, resumed, and suspended again, which removes its Pod.", "Job", "jobs", object.Object{
			APIVersion: "batch/v1", Kind: "Job", Revision: image, Part: object.Tag, Ready: "{.status.ready}=1",
		}, func(w *workload, declare func(did, tag string, suspend bool)) {
			w.truthOfPods(1)
			declare("makes it with v1, suspended", "v1", true)
			w.until("it is suspended", func(live fields) bool { return text(condition(live, "Suspended"), "status") == "True" })
			w.rests()
			declare("resumes it", "v1", false)
			w.is("its Pod is ready", fields{"ready": 1})
			w.rests()
			declare("suspends it", "v1", true)
			w.until("its Pod is gone", func(live fields) bool { return text(live, "status", "ready") != "1" })
			w.rests()
			declare("resumes it", "v1", false)
			w.is("its Pod is ready", fields{"ready": 1})
			w.ends("v1", "v1")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &workload{newRecorder(t, c, name, "kube-controller-manager "+kubernetes(t), tell.about), tell.resource, tell.kind, "batch/v1", repository, 1}
			w.follows(w.path(), tell.object)
			tell.run(w, func(did, tag string, suspend bool) {
				w.did(did)
				spec := fields{"template": pod(tag), "suspend": suspend}
				if tell.kind == "CronJob" {
					spec = fields{"schedule": "0 0 1 1 *", "concurrencyPolicy": "Forbid", "suspend": suspend, "jobTemplate": fields{"spec": fields{"template": pod(tag)}}}
				}
				w.declares(w.path(), fields{"apiVersion": w.api, "kind": w.kind, "metadata": fields{"name": "shop"}, "spec": spec})
			})
		})
	}
}

// kubernetes is the version of the cluster, which does not know it.
func kubernetes(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../kube/go.mod")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "k8s.io/kubernetes v")
	require.True(t, found)
	version, _, _ := strings.Cut(after, "\n")
	return version
}

func rollouts(t *testing.T, c *client, repository string) {
	install(t, c, "argo-rollouts")
	start(t, c, "argo-rollouts", "--leader-elect=false", "--metricsPort", portOf(port(t)), "--healthzPort", portOf(port(t)))
	canary := func(steps ...any) func(spec fields) {
		return func(spec fields) {
			spec["strategy"] = fields{"canary": fields{"maxSurge": 1, "maxUnavailable": 0, "steps": steps}}
		}
	}
	weight, wait := fields{"setWeight": 50}, fields{"pause": fields{"duration": 4}}
	stop := fields{"pause": fields{}}
	is := func(w *workload, what, phase string) {
		w.until(what, func(live fields) bool { return text(live, "status", "phase") == phase && seen(live) })
	}
	for name, tell := range map[string]struct {
		about string
		run   func(w *workload)
	}{
		"rollout-canary": {"A canary waits some seconds and goes on by itself.", func(w *workload) {
			w.declare("makes it with v1", "v1", canary(weight, wait))
			is(w, "v1 is well", "Healthy")
			w.declare("has it run v2", "v2", canary(weight, wait))
			is(w, "it waits", "Paused")
			is(w, "v2 is well", "Healthy")
			w.ends("v2", "v1", "v2")
		}},
		"rollout-paused": {"It gets an image while it is paused, and goes on.", func(w *workload) {
			w.declare("makes it with v1", "v1", canary(weight, wait))
			is(w, "v1 is well", "Healthy")
			w.rests()
			w.declare("pauses it, and has it run v2", "v2", canary(weight, wait), paused)
			w.until("it has seen that", seen)
			w.rests()
			w.declare("has it go on", "v2", canary(weight, wait))
			is(w, "v2 is well", "Healthy")
			w.ends("v2", "v1", "v2")
		}},
		"rollout-canary-fails": {"The Pods of a canary never start, people abort it, and then have it run a good image.", func(w *workload) {
			deadline := func(spec fields) { spec["progressDeadlineSeconds"] = 5 }
			w.declare("makes it with v1", "v1", canary(weight, wait), deadline)
			is(w, "v1 is well", "Healthy")
			w.declare("has it run an image that does not exist", "missing", canary(weight, wait), deadline)
			is(w, "it fails", "Degraded")
			w.did("aborts it")
			w.patch(w, w.path()+"/status", fields{"status": fields{"abort": true}})
			w.until("it is aborted", func(live fields) bool { return text(live, "status", "abort") == "true" })
			w.rests()
			w.declare("has it run v2", "v2", canary(weight, wait), deadline)
			is(w, "v2 is well", "Healthy")
			w.ends("v2", "v1", "v2")
		}},
		"rollout-canary-taken-back": {"A canary waits for people, who take it back.", func(w *workload) {
			w.declare("makes it with v1", "v1", canary(weight, stop))
			is(w, "v1 is well", "Healthy")
			w.declare("has it run v2", "v2", canary(weight, stop))
			is(w, "it waits", "Paused")
			w.declare("has it run v1 again", "v1", canary(weight, stop))
			is(w, "v1 is well", "Healthy")
			w.ends("v1", "v1")
		}},
		"rollout-canary-aborted": {"A canary waits for people, who abort it and take it back.", func(w *workload) {
			w.declare("makes it with v1", "v1", canary(weight, stop))
			is(w, "v1 is well", "Healthy")
			w.declare("has it run v2", "v2", canary(weight, stop))
			is(w, "it waits", "Paused")
			w.rests()
			w.did("aborts it")
			w.patch(w, w.path()+"/status", fields{"status": fields{"abort": true}})
			is(w, "it is aborted", "Degraded")
			w.rests()
			w.declare("has it run v1 again", "v1", canary(weight, stop))
			is(w, "v1 is well", "Healthy")
			w.ends("v1", "v1")
		}},
		"rollout-canary-promoted": {"A canary waits for people, who let it go on.", func(w *workload) {
			w.declare("makes it with v1", "v1", canary(weight, stop))
			is(w, "v1 is well", "Healthy")
			w.declare("has it run v2", "v2", canary(weight, stop))
			is(w, "it waits", "Paused")
			w.rests()
			w.did("promotes it")
			w.patch(w, w.path()+"/status", fields{"status": fields{"pauseConditions": nil}})
			is(w, "v2 is well", "Healthy")
			w.ends("v2", "v1", "v2")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &workload{newRecorder(t, c, name, version(t, "argo-rollouts"), tell.about), "rollouts", "Rollout", "argoproj.io/v1alpha1", repository, 2}
			w.follows(w.path(), objectOfRollout())
			w.truthOfPods(2)
			tell.run(w)
		})
	}
}

// objectOfRollout is how a definition names a Rollout.
func objectOfRollout() object.Object {
	return object.Object{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Revision: "{.spec.template.spec.containers[0].image}", Part: object.Tag, Ready: "{.status.phase}=Healthy"}
}
