//go:build controllers

package statuses

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// flux are the controllers of Flux in a cluster.
type flux struct {
	*client
	kustomize, helm *controller
}

func newFlux(t testing.TB, c *client) *flux {
	t.Helper()
	for _, name := range []string{"source-controller", "kustomize-controller", "helm-controller"} {
		install(t, c, name)
	}
	files := port(t)
	common := []string{"--enable-leader-election=false", "--metrics-addr=0", "--health-addr=0", "--log-level=info", "--concurrent=8"}
	start(t, c, "source-controller", append(common, "--storage-path="+t.TempDir(), "--storage-addr="+files, "--storage-adv-addr="+files)...)
	return &flux{c, start(t, c, "kustomize-controller", common...), start(t, c, "helm-controller", common...)}
}

// kustomized is a Kustomization of a git repository, which is recorded.
type kustomized struct {
	*recorder
	repository *repository
	branch     string
	revisions  map[string][]string // which of them have a version of the shop
	asked      int
}

func (k *kustomized) source() string {
	return "/apis/source.toolkit.fluxcd.io/v1/namespaces/" + k.namespace + "/gitrepositories/shop"
}

func (k *kustomized) path() string {
	return "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/" + k.namespace + "/kustomizations/shop"
}

func (k *kustomized) workload() string {
	return "/apis/apps/v1/namespaces/" + k.namespace + "/deployments/shop"
}

func (f *flux) kustomization(t testing.TB, name, about string, well func(live fields) string) *kustomized {
	t.Helper()
	k := &kustomized{newRecorder(t, f.client, name, version(t, "kustomize-controller"), about), newRepository(t), "main", map[string][]string{}, 0}
	k.follows(k.path(), object.Object{Kind: "Kustomization"})
	k.truth(k.workload(), func(live fields) []string { return k.revisions[well(live)] })
	return k
}

// push commits a version of the shop, and has it fetched.
func (k *kustomized) push(did, version string, object fields) (revision string) {
	k.Helper()
	return k.pushes(did, version, map[string]string{"shop.yaml": manifest(object)})
}

func (k *kustomized) pushes(did, version string, files map[string]string) (revision string) {
	k.Helper()
	commit := k.repository.commit(files)
	revision = "main@sha1:" + commit
	k.mu.Lock()
	k.revisions[version] = append(k.revisions[version], revision)
	k.mu.Unlock()
	k.fetches(did, commit)
	return revision
}

// fetches has a commit fetched.
func (k *kustomized) fetches(did, commit string) {
	k.Helper()
	k.did(did)
	k.asked++
	k.apply(k, k.source(), fields{
		"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
		"metadata": fields{"name": "shop", "annotations": fields{"reconcile.fluxcd.io/requestedAt": fmt.Sprint(k.asked)}},
		"spec":     fields{"interval": "1h", "timeout": "60s", "url": k.repository.url, "ref": fields{"branch": k.branch}},
	})
	kubetest.Await(k, k.Cluster, k.source(), "it has fetched "+commit, func(live fields) bool {
		return text(live, "status", "artifact", "revision") == k.branch+"@sha1:"+commit
	})
}

// declare makes the Kustomization, or changes it.
func (k *kustomized) declare(did string, change fields) {
	k.Helper()
	k.did(did)
	spec := fields{
		"interval": "1h", "retryInterval": "1h", "timeout": "8s", "wait": true, "prune": true, "path": "./", "targetNamespace": k.namespace,
		"sourceRef": fields{"kind": "GitRepository", "name": "shop"},
	}
	for name, value := range change {
		spec[name] = value
	}
	k.declares(k.path(), fields{"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": fields{"name": "shop"}, "spec": spec})
}

// applied waits until a revision was applied, and the controller has said so.
func (k *kustomized) applied(revision string) {
	k.Helper()
	k.until("it runs "+revision, func(live fields) bool {
		return text(live, "status", "lastAppliedRevision") == revision && k.observed(live) && text(condition(live, "Ready"), "status") == "True"
	})
}

func (k *kustomized) observed(live fields) bool {
	return text(live, "status", "observedGeneration") == text(live, "metadata", "generation")
}

// failed waits until a revision has failed.
func (k *kustomized) failed(revision, reason string) {
	k.Helper()
	k.until("it fails with "+revision, func(live fields) bool {
		ready := condition(live, "Ready")
		return text(live, "status", "lastAttemptedRevision") == revision && text(ready, "status") == "False" && text(ready, "reason") == reason
	})
}

func kustomizations(t *testing.T, f *flux) {
	for name, tell := range map[string]struct {
		about string
		run   func(k *kustomized)
		well  func(live fields) string // the version of the shop that runs well
	}{
		"kustomization-failing-revision": {"A good revision, one whose Pods never start, and a good one.", func(k *kustomized) {
			good := k.push("pushes v1", "v1", shop("v1", pause))
			k.declare("makes the Kustomization", nil)
			k.applied(good)
			bad := k.push("pushes v2, whose Pods never start", "v2", shop("v2", missing))
			k.failed(bad, "HealthCheckFailed")
			next := k.push("pushes v3", "v3", shop("v3", pause))
			k.applied(next)
			k.ends(next, good, next)
		}, rolledOut},
		"kustomization-retries": {"A revision whose Pods never start is tried again and again, and then one is pushed that repairs it.", func(k *kustomized) {
			good := k.push("pushes v1", "v1", shop("v1", pause))
			k.declare("makes the Kustomization with retries after 3s", fields{"retryInterval": "3s", "timeout": "4s"})
			k.applied(good)
			bad := k.push("pushes v2, whose Pods never start", "v2", shop("v2", missing))
			for range 2 {
				k.failed(bad, "HealthCheckFailed")
				k.until("it tries again", func(live fields) bool { return text(condition(live, "Ready"), "status") == "Unknown" })
			}
			next := k.push("pushes v3", "v3", shop("v3", pause))
			k.applied(next)
			k.ends(next, good, next)
		}, rolledOut},
		"kustomization-slow-rollout": {"A revision takes some seconds until its Pods are available.", func(k *kustomized) {
			good := k.push("pushes v1", "v1", shop("v1", pause))
			k.declare("makes the Kustomization", fields{"timeout": "2m"})
			k.applied(good)
			next := k.push("pushes v2, whose Pods are available after 5s", "v2", shop("v2", pause, slowly))
			k.applied(next)
			k.ends(next, good, next)
		}, rolledOut},
		"kustomization-branch-back": {"A branch goes back to the commit before one that fails.", func(k *kustomized) {
			good := k.push("pushes v1", "v1", shop("v1", pause))
			k.declare("makes the Kustomization", nil)
			k.applied(good)
			bad := k.push("pushes v2, whose Pods never start", "v2", shop("v2", missing))
			k.failed(bad, "HealthCheckFailed")
			commit := good[len("main@sha1:"):]
			k.repository.reset(commit)
			k.fetches("has the branch back at v1", commit)
			k.applied(good)
			k.ends(good, good)
		}, rolledOut},
		"kustomization-build-fails": {"A revision cannot be built, and the next one repairs it.", func(k *kustomized) {
			good := k.push("pushes v1", "v1", shop("v1", pause))
			k.declare("makes the Kustomization", nil)
			k.applied(good)
			bad := k.pushes("pushes a file that is no YAML", "broken", map[string]string{"other.yaml": "kind: [\n"})
			k.failed(bad, "BuildFailed")
			next := k.pushes("pushes the repaired file", "v1", map[string]string{"other.yaml": manifest(configMap())})
			k.applied(next)
			k.ends(next, good, next)
		}, rolledOut},
		"kustomization-refused": {"The API server refuses an object of a revision, and the next one repairs it.", func(k *kustomized) {
			good := k.push("pushes v1", "v1", shop("v1", pause))
			k.declare("makes the Kustomization", nil)
			k.applied(good)
			bad := k.push("pushes a Deployment with another selector", "broken", shop("v2", pause, func(spec fields) { spec["selector"] = fields{"matchLabels": fields{"app": "other"}} }))
			k.failed(bad, "ReconciliationFailed")
			next := k.push("pushes v3", "v3", shop("v3", pause))
			k.applied(next)
			k.ends(next, good, next)
		}, rolledOut},
		"kustomization-suspended": {"It is suspended while a revision is pushed, and resumed.", func(k *kustomized) {
			good := k.push("pushes v1", "v1", shop("v1", pause))
			k.declare("makes the Kustomization", nil)
			k.applied(good)
			k.declare("suspends it", fields{"suspend": true})
			next := k.push("pushes v2", "v2", shop("v2", pause))
			k.rests()
			k.declare("resumes it", nil)
			k.applied(next)
			k.ends(next, good, next)
		}, rolledOut},
		"kustomization-interval": {"Its interval is changed, and it is reconciled at each.", func(k *kustomized) {
			good := k.push("pushes v1", "v1", shop("v1", pause))
			k.declare("makes the Kustomization", nil)
			k.applied(good)
			k.declare("changes the interval to 2s", fields{"interval": "2s"})
			for range 3 {
				k.until("it is at work", func(live fields) bool { return text(condition(live, "Ready"), "reason") == "Progressing" })
				k.applied(good)
			}
			k.declare("changes the interval to 1h", nil)
			k.until("it has seen that", func(live fields) bool { return text(live, "metadata", "generation") == "3" && k.observed(live) })
			k.applied(good)
			k.ends(good, good)
		}, rolledOut},
		"kustomization-other-path": {"It gets a path whose Pods never start, of the same revision, and the path before.", func(k *kustomized) {
			good := k.pushes("pushes v1, and v2 in another directory, whose Pods never start", "v1", map[string]string{"one/shop.yaml": manifest(shop("v1", pause)), "two/shop.yaml": manifest(shop("v2", missing))})
			k.declare("makes the Kustomization", fields{"path": "./one"})
			k.applied(good)
			k.declare("changes its path", fields{"path": "./two"})
			k.failed(good, "HealthCheckFailed")
			k.declare("changes its path back", fields{"path": "./one"})
			k.until("it has seen that", func(live fields) bool { return text(live, "metadata", "generation") == "3" && k.observed(live) })
			k.applied(good)
			k.ends(good, good)
		}, rolledOut},
		"kustomization-restarted": {"Its controller is killed while a revision is rolled out, and started again.", func(k *kustomized) {
			good := k.push("pushes v1", "v1", shop("v1", pause))
			k.declare("makes the Kustomization", nil)
			k.applied(good)
			k.push("pushes v2, whose Pods never start", "v2", shop("v2", missing))
			k.until("it is at work", func(live fields) bool { return text(condition(live, "Ready"), "reason") == "Progressing" })
			k.did("kills the controller, and starts it again")
			f.kustomize.restart()
			k.until("it fails", func(live fields) bool { return text(condition(live, "Ready"), "reason") == "HealthCheckFailed" })
			next := k.push("pushes v3", "v3", shop("v3", pause))
			k.applied(next)
			k.ends(next, good, next)
		}, rolledOut},
		"kustomization-not-waiting": {"It does not wait for what it applies, so each revision that is applied counts.", func(k *kustomized) {
			good := k.push("pushes v1", "v1", shop("v1", pause))
			k.declare("makes the Kustomization", fields{"wait": false})
			k.applied(good)
			next := k.push("pushes v2", "v2", shop("v2", pause))
			k.applied(next)
			kubetest.Await(k, k.Cluster, k.workload(), "v2 is rolled out", func(live fields) bool { return rolledOut(live) == "v2" })
			k.ends(next, good, next)
		}, applied},
		"kustomization-broken-later": {"Somebody breaks what it has applied, and it finds that at its interval.", func(k *kustomized) {
			good := k.push("pushes v1", "v1", shop("v1", pause))
			k.declare("makes the Kustomization with an interval of 4s, and without correcting the Deployment", fields{"interval": "4s", "retryInterval": "2s", "timeout": "3s"})
			k.applied(good)
			k.did("scales the nodes' Pods away by a selector that no node has")
			k.patch(k, k.workload(), fields{"metadata": fields{"annotations": fields{"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}}})
			k.patch(k, k.workload(), fields{"spec": fields{"strategy": fields{"type": "Recreate", "rollingUpdate": nil}, "template": fields{"spec": fields{"nodeSelector": fields{"none": "such"}}}}})
			k.failed(good, "HealthCheckFailed")
			k.did("undoes that")
			k.patch(k, k.workload(), fields{"spec": fields{"template": fields{"spec": fields{"nodeSelector": nil}}}})
			k.applied(good)
			k.patch(k, k.path(), fields{"spec": fields{"interval": "1h"}})
			k.until("it has seen that", func(live fields) bool { return k.observed(live) && text(live, "spec", "interval") == "1h" })
			k.applied(good)
			k.ends(good, good)
		}, rolledOut},
		"kustomization-removed": {"It is removed, with what it has applied, and made again.", func(k *kustomized) {
			good := k.push("pushes v1", "v1", shop("v1", pause))
			k.declare("makes the Kustomization", nil)
			k.applied(good)
			k.did("removes it")
			k.Ask(k, http.MethodDelete, k.path(), nil)
			kubetest.AwaitGone(k, k.Cluster, k.path())
			k.declare("makes it again", nil)
			k.applied(good)
			k.ends(good, good)
		}, rolledOut},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "kustomization-restarted" { // which ends the work of all others
				t.Parallel()
			}
			tell.run(f.kustomization(t, name, tell.about, tell.well))
		})
	}
}

// applied is the version of the shop that its Deployment should run.
func applied(live fields) string {
	return text(live, "spec", "template", "metadata", "annotations", "version")
}

func configMap() fields {
	return fields{"apiVersion": "v1", "kind": "ConfigMap", "metadata": fields{"name": "other"}, "data": fields{"a": "b"}}
}
