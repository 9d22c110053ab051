//go:build controllers

package statuses

import (
	"net/http"
	"testing"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// startFlux starts a controller of Flux.
func startFlux(t testing.TB, c *client, name string) *controller {
	t.Helper()
	install(t, c, "source-controller")
	install(t, c, name)
	return start(t, c, name, "--enable-leader-election=false", "--metrics-addr=0", "--health-addr=0", "--log-level=info", "--concurrent=8", "--requeue-dependency=3s")
}

// kustomized is a Kustomization of a git repository, which is recorded.
type kustomized struct {
	*recorder
	repository *repository
	branch     string
	revisions  map[string][]string // which of them have a version of the shop
}

func (k *kustomized) source(resource string) string {
	return "/apis/source.toolkit.fluxcd.io/v1/namespaces/" + k.namespace + "/" + resource + "/shop"
}

func (k *kustomized) path() string {
	return "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/" + k.namespace + "/kustomizations/shop"
}

func (k *kustomized) workload() string {
	return "/apis/apps/v1/namespaces/" + k.namespace + "/deployments/shop"
}

func newKustomized(t testing.TB, c *client, name, about string, well func(live fields) string) *kustomized {
	t.Helper()
	k := &kustomized{newRecorder(t, c, name, version(t, "kustomize-controller"), about), newRepository(t), "main", map[string][]string{}}
	k.follows(k.path(), object.Object{Kind: "Kustomization"})
	k.resolve = func(version string) []string { return k.revisions[version] }
	k.truth(k.workload(), well)
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
	artifact := k.repository.artifact(commit, "", k.branch+"@sha1:"+commit)
	k.did(did)
	k.publishes(artifact)
}

// publishes makes the source of the Kustomization as its controller has it.
func (k *kustomized) publishes(artifact fields) {
	k.Helper()
	k.publish(k, k.source("gitrepositories"), "GitRepository", fields{"interval": "1h", "url": "https://git.example/fleet", "ref": fields{"branch": k.branch}}, artifact)
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

func kustomizations(t *testing.T, c *client) {
	controller := startFlux(t, c, "kustomize-controller")
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
			controller.restart()
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
			k.declare("makes the Kustomization with an interval of 4s", fields{"interval": "4s", "retryInterval": "2s", "timeout": "6s"})
			k.applied(good)
			k.did("has its Pods want a node that is not there")
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
		"kustomization-superseded": {"A revision is pushed while the one before is rolled out.", func(k *kustomized) {
			good := k.push("pushes v1", "v1", shop("v1", pause))
			k.declare("makes the Kustomization", fields{"timeout": "15s"})
			k.applied(good)
			k.push("pushes v2, whose Pods never start", "v2", shop("v2", missing))
			k.until("it is at work", func(live fields) bool { return text(condition(live, "Ready"), "reason") == "Progressing" })
			next := k.push("pushes v3", "v3", shop("v3", pause))
			k.applied(next)
			k.ends(next, good, next)
		}, rolledOut},
		"kustomization-artifact-gone": {"The artifact of a revision is gone, and comes back.", func(k *kustomized) {
			good := k.push("pushes v1", "v1", shop("v1", pause))
			k.declare("makes the Kustomization", nil)
			k.applied(good)
			commit := k.repository.commit(map[string]string{"shop.yaml": manifest(shop("v2", pause))})
			next := k.branch + "@sha1:" + commit
			artifact := k.repository.artifact(commit, "", next)
			url := artifact["url"]
			artifact["url"] = k.repository.served.URL + "/gone.tar.gz"
			k.did("pushes v2, whose artifact is not served")
			k.publishes(artifact)
			k.until("it fails", func(live fields) bool { return text(condition(live, "Ready"), "reason") == "ArtifactFailed" })
			k.rests()
			k.mu.Lock()
			k.revisions["v2"] = []string{next}
			k.mu.Unlock()
			artifact["url"] = url
			k.did("has it served")
			k.publishes(artifact)
			k.applied(next)
			k.ends(next, good, next)
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
			tell.run(newKustomized(t, c, name, tell.about, tell.well))
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
