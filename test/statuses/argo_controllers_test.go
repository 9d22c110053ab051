//go:build controllers

package statuses

import (
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// startArgo starts the part of Argo CD that deploys, and returns the namespace of its applications.
func startArgo(t testing.TB, c *client) (namespace string) {
	t.Helper()
	install(t, c, "argocd")
	namespace = c.Namespace(t, "")
	make := func(path, api, kind, name string, more fields) {
		object := fields{"apiVersion": api, "kind": kind, "metadata": fields{"name": name, "labels": fields{"app.kubernetes.io/part-of": "argocd"}}}
		maps.Copy(object, more)
		c.apply(t, path+"/namespaces/"+namespace+"/"+strings.ToLower(kind)+"s/"+name, object)
	}
	make("/api/v1", "v1", "ConfigMap", "argocd-cm", nil)
	make("/api/v1", "v1", "Secret", "argocd-secret", fields{"stringData": fields{"server.secretkey": "of the test"}})
	anything := []any{fields{"server": "*", "namespace": "*"}}
	make("/apis/argoproj.io/v1alpha1", "argoproj.io/v1alpha1", "AppProject", "default", fields{"spec": fields{"sourceRepos": []any{"*"}, "destinations": anything}})
	cache, repositories := port(t), port(t)
	startProgram(t, c, "redis-server", "redis-server", "--bind", "127.0.0.1", "--port", portOf(cache), "--save", "")
	for name, args := range map[string][]string{
		"argocd-repo-server":            {"--address", "127.0.0.1", "--port", portOf(repositories), "--metrics-address", "127.0.0.1", "--metrics-port", portOf(port(t)), "--disable-tls"},
		"argocd-application-controller": {"--namespace", namespace, "--repo-server", repositories, "--repo-server-plaintext", "--metrics-port", portOf(port(t))},
	} {
		startProgram(t, c, name, append([]string{
			"env", "ARGOCD_BINARY_NAME=" + name, "ARGOCD_FAKE_IN_CLUSTER=true", "ARGOCD_GPG_ENABLED=false", "TMPDIR=" + t.TempDir(),
			filepath.Join(programs(t), "argocd"), "--redis", cache, "--loglevel", "info",
		}, args...)...)
	}
	return namespace
}

// synced is an application of Argo CD, which is recorded.
type synced struct {
	*recorder
	argo       string // the namespace of all applications
	repository *repository
	branch     string
	revisions  map[string][]string // which of them have a version of the shop, and are well with it
}

func newSynced(t testing.TB, c *client, argo, name, about string) *synced {
	t.Helper()
	a := &synced{newRecorder(t, c, name, version(t, "argocd"), about), argo, newRepository(t), "main", map[string][]string{}}
	a.names = []string{a.repository.dir, "/git/shop"}
	a.follows(a.path(), object.Object{Kind: "Application"})
	a.object.Name = "shop"
	a.resolve = func(version string) []string { return a.revisions[version] }
	a.truth(a.workload(), rolledOut)
	return a
}

func (a *synced) path() string {
	return "/apis/argoproj.io/v1alpha1/namespaces/" + a.argo + "/applications/" + a.namespace
}

func (a *synced) workload() string {
	return "/apis/apps/v1/namespaces/" + a.namespace + "/deployments/shop"
}

// push commits a version of the shop, with other objects. well tells that it is to count when it runs.
func (a *synced) push(did, version string, well bool, shop fields, others ...fields) (commit string) {
	a.Helper()
	files := map[string]string{"shop/shop.yaml": manifest(shop), "shop/others.yaml": ""}
	for _, one := range others {
		files["shop/others.yaml"] += "---\n" + manifest(one) + "\n"
	}
	commit = a.repository.commit(files)
	if well {
		a.counts(version, commit)
	}
	a.did(did)
	a.looks()
	return commit
}

// counts has a commit count as well once it runs a version.
func (a *synced) counts(version, commit string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revisions[version] = append(a.revisions[version], commit)
}

// looks has Argo CD look at the repository, as the webhook of a forge does.
func (a *synced) looks() {
	a.Helper()
	a.mu.Lock()
	there := a.live != nil
	a.mu.Unlock()
	if there {
		a.patch(a, a.path(), fields{"metadata": fields{"annotations": fields{"argocd.argoproj.io/refresh": "normal"}}})
	}
}

// source is a directory of the repository.
func (a *synced) source(dir string) fields {
	return fields{"repoURL": "file://" + a.repository.dir, "path": dir, "targetRevision": a.branch}
}

// declare makes the application, or changes it. nil leaves a field away.
func (a *synced) declare(did string, change fields) {
	a.Helper()
	a.did(did)
	spec := fields{
		"project": "default", "destination": fields{"server": "https://kubernetes.default.svc", "namespace": a.namespace},
		"source": a.source("shop"), "syncPolicy": fields{"automated": fields{"prune": true}},
	}
	maps.Copy(spec, change)
	maps.DeleteFunc(spec, func(_ string, value any) bool { return value == nil })
	a.declares(a.path(), fields{"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": fields{"name": a.namespace}, "spec": spec})
}

// says waits until the status says something, of revisions that were compared.
func (a *synced) says(phase, wanted, health string, compared ...string) {
	a.Helper()
	a.until("it is "+phase+", "+wanted+" and "+health, func(live fields) bool {
		seen := []string{text(live, "status", "sync", "revision")}
		status, _ := live["status"].(fields)
		sync, _ := status["sync"].(fields)
		if several, is := sync["revisions"].([]any); is {
			seen = nil
			for _, one := range several {
				seen = append(seen, text(one))
			}
		}
		return strings.Join(seen, " ") == strings.Join(compared, " ") && text(sync, "status") == wanted &&
			text(live, "status", "health", "status") == health && text(live, "status", "operationState", "phase") == phase
	})
}

// applied waits until a revision was applied, and Argo CD has said so.
func (a *synced) applied(compared ...string) {
	a.Helper()
	a.says("Succeeded", "Synced", "Healthy", compared...)
}

// syncs has people sync the application to some revisions, one for each source.
func (a *synced) syncs(did string, revisions ...string) {
	a.Helper()
	a.did(did)
	sync := fields{"prune": true, "revision": revisions[0]}
	if len(revisions) > 1 {
		sync = fields{"prune": true, "revisions": revisions}
	}
	a.patch(a, a.path(), fields{"operation": fields{"initiatedBy": fields{"username": "ann"}, "sync": sync}})
}

// once is a policy by which a sync is not tried again. Without, that is so 5 times.
var once = fields{"syncPolicy": fields{"automated": fields{"prune": true}, "retry": fields{"limit": 0}}}

// soon has a rollout count as failed after some seconds.
func soon(spec fields) { spec["progressDeadlineSeconds"] = 4 }

// hook is a Job that Argo CD runs once all else is healthy, and that fails.
func hook() fields {
	return fields{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": fields{"name": "check", "annotations": fields{"argocd.argoproj.io/hook": "PostSync"}},
		"spec": fields{"backoffLimit": 0, "activeDeadlineSeconds": 2, "template": fields{"spec": fields{
			"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": []any{fields{"name": "check", "image": pause, "imagePullPolicy": "Never"}},
		}}},
	}
}

func applications(t *testing.T, c *client) {
	argo := startArgo(t, c)
	for name, tell := range map[string]struct {
		about string
		run   func(a *synced)
	}{
		"application-failing-revision": {"A good revision, one whose Pods never start, and a good one.", func(a *synced) {
			good := a.push("pushes v1", "v1", true, shop("v1", pause))
			a.declare("makes the Application", nil)
			a.applied(good)
			bad := a.push("pushes v2, whose Pods never start", "v2", true, shop("v2", missing, soon))
			a.says("Succeeded", "Synced", "Degraded", bad)
			next := a.push("pushes v3", "v3", true, shop("v3", pause))
			a.applied(next)
			a.ends(next, good, next)
		}},
		"application-slow-rollout": {"A revision takes some seconds until its Pods are available.", func(a *synced) {
			good := a.push("pushes v1", "v1", true, shop("v1", pause))
			a.declare("makes the Application", nil)
			a.applied(good)
			next := a.push("pushes v2, whose Pods are available after 5s", "v2", true, shop("v2", pause, slowly))
			a.says("Succeeded", "Synced", "Progressing", next)
			a.applied(next)
			a.ends(next, good, next)
		}},
		"application-hook-fails": {"The PostSync hook of a revision fails, then comes a commit outside its path, and then a good revision.", func(a *synced) {
			good := a.push("pushes v1", "v1", true, shop("v1", pause))
			a.declare("makes the Application", nil)
			a.applied(good)
			a.declare("has it try no sync again", once)
			a.applied(good)
			bad := a.push("pushes v2, with a PostSync hook that fails", "v2", false, shop("v2", pause), hook())
			a.says("Failed", "Synced", "Healthy", bad)
			a.rests()
			other := a.repository.commit(map[string]string{"README.md": "about the shop\n"})
			a.did("pushes a commit outside its path")
			a.looks()
			a.says("Failed", "Synced", "Healthy", other)
			a.rests()
			next := a.push("pushes v3, without the hook", "v3", true, shop("v3", pause))
			a.applied(next)
			a.ends(next, good, next)
		}},
		"application-retries": {"The sync of a revision fails and is tried again until what it needs is there.", func(a *synced) {
			needs := a.namespace + "-needs"
			good := a.push("pushes v1", "v1", true, shop("v1", pause))
			a.declare("makes the Application, which tries a sync again after 2s", fields{"syncPolicy": fields{
				"automated": fields{"prune": true}, "retry": fields{"limit": 20, "backoff": fields{"duration": "2s", "factor": 1, "maxDuration": "10s"}},
			}})
			a.applied(good)
			other := configMap()
			other["metadata"].(fields)["namespace"] = needs
			next := a.push("pushes v2, with an object in a namespace that is not there", "v2", true, shop("v2", pause), other)
			for _, attempt := range []string{"#1", "#2"} {
				a.until("it tries again: "+attempt, func(live fields) bool {
					return strings.Contains(text(live, "status", "operationState", "message"), "attempt "+attempt)
				})
			}
			a.did("makes the namespace")
			a.apply(a, "/api/v1/namespaces/"+needs, fields{"apiVersion": "v1", "kind": "Namespace", "metadata": fields{"name": needs}})
			a.Cleanup(func() { a.Ask(a, http.MethodDelete, "/api/v1/namespaces/"+needs, nil) })
			a.applied(next)
			a.ends(next, good, next)
		}},
		"application-sync-fails": {"The API server refuses an object of a revision, and the next one repairs it.", func(a *synced) {
			good := a.push("pushes v1", "v1", true, shop("v1", pause))
			a.declare("makes the Application", nil)
			a.applied(good)
			a.declare("has it try no sync again", once)
			a.applied(good)
			bad := a.push("pushes a Deployment with another selector", "broken", false, shop("v2", pause, func(spec fields) { spec["selector"] = fields{"matchLabels": fields{"app": "other"}} }))
			a.says("Failed", "OutOfSync", "Healthy", bad)
			a.rests()
			next := a.push("pushes v3", "v3", true, shop("v3", pause))
			a.applied(next)
			a.ends(next, good, next)
		}},
		"application-several-sources": {"It has two sources. A revision of the first fails, and then both have new ones.", func(a *synced) {
			second := newRepository(t)
			a.names = append(a.names, second.dir, "/git/other")
			config := func() string {
				return second.commit(map[string]string{"other.yaml": manifest(configMap())})
			}
			a.object.Revision = "{.status.history[-1:].revisions[0]}"
			one := config()
			good := a.push("pushes v1", "v1", true, shop("v1", pause))
			a.declare("makes the Application", fields{"source": nil, "sources": []any{
				a.source("shop"), fields{"repoURL": "file://" + second.dir, "path": ".", "targetRevision": "main"},
			}})
			a.applied(good, one)
			bad := a.push("pushes v2 to the first, whose Pods never start", "v2", true, shop("v2", missing, soon))
			a.says("Succeeded", "Synced", "Degraded", bad, one)
			two := config()
			next := a.push("pushes v3 to the first, and the same to the second", "v3", true, shop("v3", pause))
			a.applied(next, two)
			a.ends(next, good, next)
		}},
		"application-synced-to-an-older-revision": {"People sync it to a revision whose Pods never start, older than the one that is compared, and then back.", func(a *synced) {
			bad := a.push("pushes v1, whose Pods never start", "v1", true, shop("v1", missing, soon))
			good := a.push("pushes v2", "v2", true, shop("v2", pause))
			a.declare("makes the Application, which people sync", fields{"syncPolicy": nil})
			a.says("", "OutOfSync", "Missing", good)
			a.syncs("syncs it to v2", good)
			a.applied(good)
			a.rests()
			a.syncs("syncs it to v1", bad)
			a.says("Succeeded", "OutOfSync", "Degraded", good)
			a.rests()
			a.syncs("syncs it to v2 again", good)
			a.applied(good)
			a.ends(good, good)
		}},
		"application-several-sources-by-hand": {"It has two sources. A revision of the first is pushed, and people sync it later.", func(a *synced) {
			second := newRepository(t)
			a.names = append(a.names, second.dir, "/git/other")
			a.object.Revision = "{.status.history[-1:].revisions[0]}"
			other := second.commit(map[string]string{"other.yaml": manifest(configMap())})
			good := a.push("pushes v1", "v1", true, shop("v1", pause))
			a.declare("makes the Application, which people sync", fields{"syncPolicy": nil, "source": nil, "sources": []any{
				a.source("shop"), fields{"repoURL": "file://" + second.dir, "path": ".", "targetRevision": "main"},
			}})
			a.says("", "OutOfSync", "Missing", good, other)
			a.syncs("syncs it", good, other)
			a.applied(good, other)
			a.rests()
			next := a.push("pushes v2 to the first", "v2", true, shop("v2", pause))
			a.says("Succeeded", "OutOfSync", "Healthy", next, other)
			a.rests()
			a.syncs("syncs it", next, other)
			a.applied(next, other)
			a.ends(next, good, next)
		}},
		"application-not-automated": {"Nobody syncs a revision that is pushed until automated syncs are on again.", func(a *synced) {
			good := a.push("pushes v1", "v1", true, shop("v1", pause))
			a.declare("makes the Application", nil)
			a.applied(good)
			a.declare("ends automated syncs", fields{"syncPolicy": nil})
			next := a.push("pushes v2", "v2", true, shop("v2", pause))
			a.says("Succeeded", "OutOfSync", "Healthy", next)
			a.rests()
			a.declare("has it synced automatically again", nil)
			a.applied(next)
			a.ends(next, good, next)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tell.run(newSynced(t, c, argo, name, tell.about))
		})
	}
}

// A good revision of an application goes through three stages. One whose Pods never start does not, nor
// does one whose PostSync hook fails, nor a commit outside the path of that.
func TestRevisionsGoThroughApplications(t *testing.T) {
	c := newClient(kubetest.Shared(t))
	c.StartControllers(t)
	argo := startArgo(t, c)
	var stages []stage
	var all []*synced
	commits := map[string]string{} // by version of the shop
	for _, name := range stageNames {
		a := newSynced(t, c, argo, name, "")
		if len(all) > 0 {
			a.repository = all[0].repository
		}
		a.branch = name
		all = append(all, a)
		stages = append(stages, stage{
			name: name, object: fields{"cluster": "dev", "kind": "Application", "namespace": argo, "name": a.namespace},
			bring: func(commit string) {
				a.repository.git("branch", "--force", name, commit)
				a.looks()
			},
			well: func() string {
				return commits[rolledOut(a.must(t, http.MethodGet, a.workload(), "", nil))]
			},
		})
	}
	push := func(version string, files map[string]string) string {
		commit := all[0].repository.commit(files)
		commits[version] = commit
		stages[0].bring(commit)
		return commit
	}
	of := func(shop fields, others string) map[string]string {
		return map[string]string{"shop/shop.yaml": manifest(shop), "shop/others.yaml": others}
	}
	first := push("v1", of(shop("v1", pause), ""))
	for i, a := range all {
		stages[i].bring(first)
		a.declare("", nil)
		a.applied(first)
		a.declare("", once)
	}
	s := newStory(t, c, stages...)
	good := push("v2", of(shop("v2", pause), ""))
	s.comesTo(good)
	bad := push("v3", of(shop("v3", missing, soon), ""))
	all[0].says("Succeeded", "Synced", "Degraded", bad)
	hooked := push("v4", of(shop("v4", pause), manifest(hook())))
	all[0].says("Failed", "Synced", "Healthy", hooked)
	other := push("", map[string]string{"README.md": "about the shop\n"})
	all[0].says("Failed", "Synced", "Healthy", other)
	all[0].rests()
	slow := push("v5", of(shop("v5", pause, slowly), ""))
	s.comesTo(slow)
	s.promoted(good, slow)
}
