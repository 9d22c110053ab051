//go:build kube

package promotions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
	"github.com/deployster-go/deployster/internal/kubewatch"
	"github.com/deployster-go/deployster/internal/pullrequest/forgetest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

type fields = map[string]any

// space is a namespace of a cluster with objects, whose controllers are the test.
type space struct {
	testing.TB
	*kubetest.Cluster
	namespace string
}

const (
	customs  = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/"
	releases = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/"
)

func kustomization() fields {
	return fields{"interval": "10m", "prune": true, "sourceRef": fields{"kind": "GitRepository", "name": "shop"}}
}

func helmRelease() fields {
	return fields{"interval": "10m", "chartRef": fields{"kind": "OCIRepository", "name": "shop"}}
}

// installed is a version of a chart that is, or was, installed.
func installed(version, status string, number int) fields {
	const then = "2026-01-02T03:04:05Z"
	return fields{
		"chartName": "shop", "chartVersion": version, "configDigest": "sha256:00", "digest": "sha256:00", "firstDeployed": then, "lastDeployed": then,
		"name": "shop", "namespace": "shop", "status": status, "version": number,
	}
}

// says is what the controller of an object says of it.
func (f *space) says(path, ready string, status fields) {
	f.Helper()
	var live map[string]any
	require.NoError(f, json.Unmarshal(f.Ask(f, http.MethodGet, path, nil), &live))
	generation := live["metadata"].(map[string]any)["generation"]
	status["observedGeneration"] = generation
	status["conditions"] = []any{fields{"type": "Ready", "status": ready, "observedGeneration": generation, "reason": "Tested", "message": "by the test", "lastTransitionTime": "2026-01-02T03:04:05Z"}}
	live["status"] = status
	f.Ask(f, http.MethodPut, path+"/status"+strict, live)
}

// A revision goes from an object of Flux to two others, which are in two clusters as far as anybody
// can tell, while one of them may not be read at first, and the API server is started anew.
func TestARevisionGoesThroughObjectsOfFlux(t *testing.T) {
	c := kubetest.Shared(t)
	f := &space{t, c, c.Namespace(t, "")}
	f.installs(kustomizations)
	shops := customs + f.namespace + "/kustomizations"
	for _, name := range []string{"dev", "east"} {
		f.makes(shops, "Kustomization", name, kustomization())
	}
	dir := t.TempDir()
	kubetest.Kubeconfig(t, filepath.Join(dir, "all"), c.Server, c.Token, f.namespace)
	kubetest.Kubeconfig(t, filepath.Join(dir, "west"), c.Server, c.Limited, f.namespace)

	r := newReceiver(t)
	kubeconfig := func(cluster string) string {
		if cluster == "west" {
			return filepath.Join(dir, "west")
		}
		return filepath.Join(dir, "all")
	}
	w, end := watching(t, r.workspace, kubeconfig, r.asks, func(d *definition.Definition) {
		d.Stages[0].Environment, d.Stages[0].Objects = "objects:shop/dev", []object.Object{{Cluster: "dev", Kind: "Kustomization", Namespace: f.namespace, Name: "dev", Part: object.Name}}
		d.Stages[1].Environment, d.Stages[1].Objects = "objects:shop/prod", []object.Object{
			{Cluster: "east", Kind: "Kustomization", Namespace: f.namespace, Name: "east", Part: object.Name}, {Cluster: "west", Kind: "HelmRelease", Namespace: f.namespace, Name: "west"},
		}
	})
	says := w.comesToSay

	says("dev", "its controller has not looked at it yet")
	f.says(shops+"/dev", "True", fields{"lastAppliedRevision": "v1.3.0@sha1:4a5b"})
	says("dev", "revision v1.3.0 is current")
	says("prod", "it has no kind HelmRelease of helm.toolkit.fluxcd.io")
	f.installs(helmReleases)
	charts := releases + f.namespace + "/helmreleases"
	f.makes(charts, "HelmRelease", "west", helmRelease())
	says("prod", `cannot list resource "helmreleases"`)
	for _, verbs := range [][]string{{"list"}, {"list", "watch"}} {
		name := strings.Join(verbs, "-")
		f.Create(f, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+f.namespace+"/roles", fields{
			"metadata": fields{"name": name}, "rules": []any{fields{"apiGroups": []string{"helm.toolkit.fluxcd.io"}, "resources": []string{"helmreleases"}, "verbs": verbs}},
		})
		f.Create(f, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+f.namespace+"/rolebindings", fields{
			"metadata": fields{"name": name}, "roleRef": fields{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}, "subjects": []any{fields{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}},
		})
		if len(verbs) == 1 {
			says("prod", `cannot watch resource "helmreleases"`)
		}
	}
	kubetest.Until(t, "v1.3.0 is asked for", func() (string, bool) {
		asked := r.take()
		return fmt.Sprint(asked), len(asked) == 1 && asked[0].Revision == "v1.3.0"
	})

	// It comes to one cluster, and the API server is started anew before it comes to the other.
	f.says(shops+"/east", "True", fields{"lastAppliedRevision": "v1.3.0@sha1:4a5b"})
	says("prod", "revision v1.3.0 is being promoted")
	c.RestartAPIServer(t)
	for _, path := range []string{shops + "/east", charts + "/west"} {
		kubetest.Await(t, c, path, "the API server is back", func(fields) bool { return true })
	}
	f.says(charts+"/west", "False", fields{"history": []any{installed("v1.3.0", "failed", 2)}})
	f.says(charts+"/west", "True", fields{"history": []any{installed("v1.3.0", "deployed", 2), installed("v1.2.0", "superseded", 1)}})
	w.finishes("v1.3.0")

	// What is renamed is not there any more.
	f.Ask(f, http.MethodDelete, shops+"/east", nil)
	says("prod", "it does not exist")

	end()
}

// watching is a world of the stages dev and prod, which are objects of clusters, with a scheduler that
// goes on until end is called: nothing is watched any more then.
func watching(t *testing.T, workspace string, kubeconfig func(cluster string) string, change ...func(*definition.Definition)) (w *world, end func()) {
	t.Helper()
	watched := kubewatch.New(kubewatch.Options{Retry: 100 * time.Millisecond, Find: func(cluster string) (kubewatch.Access, error) {
		return kubewatch.Access{Kubeconfig: kubeconfig(cluster)}, nil
	}})
	w = newWorld(t, reconciletest.InMemory(t))
	w.workspace, w.clusters, w.stages = workspace, watched, []string{"dev", "prod"}
	w.define(single(), change...)
	ctx, cancel := context.WithCancel(w.Context())
	w.Cleanup(cancel)
	o := w.options(w.open())
	drain := make(chan struct{})
	o.Drain = drain
	ended := make(chan error, 1)
	go func() { ended <- promotions.Schedule(ctx, o, w, w) }()
	return w, func() {
		w.Helper()
		close(drain)
		assert.NoError(w, <-ended)
		if clusters, watches := watched.Watched(); clusters+watches > 0 {
			w.Errorf("%d watches of %d clusters are left", watches, clusters)
		}
		watched.Wait()
	}
}

// comesToSay waits until a stage is explained in some words.
func (w *world) comesToSay(stage, words string) {
	w.Helper()
	kubetest.Until(w, fmt.Sprintf("%s says %q", stage, words), func() (string, bool) {
		said := w.explain(stage).Message
		return said, strings.Contains(said, words)
	})
}

// comesToRecord waits until words are in the log: what is seen of a stage while it is promoted to.
func (w *world) comesToRecord(words string) {
	w.Helper()
	kubetest.Until(w, fmt.Sprintf("the log says %q", words), func() (string, bool) {
		story := w.story()
		return story, strings.Contains(story, words)
	})
}

// finishes waits until a revision has come to all stages.
func (w *world) finishes(revision string) {
	w.Helper()
	kubetest.Until(w, "the run of "+revision+" has finished", func() (string, bool) {
		return w.story(), w.count(promotion.RunFinished, "", revision) == 1
	})
}

// argo is an application in a namespace.
type argo struct {
	*space
	name string
}

func (a argo) path() string {
	return "/apis/argoproj.io/v1alpha1/namespaces/" + a.namespace + "/applications"
}

func (a argo) make() {
	a.Helper()
	a.makes(a.path(), "Application", a.name, fields{"project": "default", "destination": destination(), "source": chart("v1.2.0")})
}

func destination() fields { return fields{"namespace": "shop"} }

func chart(version string) fields {
	return fields{"repoURL": "https://charts.example", "chart": "shop", "targetRevision": version}
}

// change changes the application: its spec as whoever follows the repository, its status as Argo CD.
func (a argo) change(part string, to fields) {
	a.Helper()
	var live fields
	require.NoError(a, json.Unmarshal(a.Ask(a, http.MethodGet, a.path()+"/"+a.name, nil), &live))
	all, _ := live[part].(map[string]any)
	if all == nil {
		all = fields{}
	}
	for name, value := range to {
		all[name] = value
	}
	live[part] = all
	a.Ask(a, http.MethodPut, a.path()+"/"+a.name+strict, live)
}

// runs is that Argo CD has synced a version, and how well it is.
func (a argo) runs(version, health string) {
	a.Helper()
	const then = "2026-01-02T03:04:05Z"
	a.change("status", fields{
		"sync":           fields{"status": "Synced", "revision": version, "comparedTo": fields{"source": chart(version), "destination": destination()}},
		"health":         fields{"status": health},
		"operationState": fields{"operation": fields{}, "phase": "Succeeded", "startedAt": then, "syncResult": fields{"revision": version, "source": chart(version)}},
		"history":        []any{fields{"id": 1, "revision": version, "deployedAt": then, "source": chart(version)}},
	})
}

// A revision that an application of Argo CD runs is proposed to the repository that another one
// follows, and one in another cluster. It is promoted when both of them run what was merged.
func TestAPullRequestPromotesToApplicationsOfArgo(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	second := c.StartSecond(t)
	here, there := &space{t, c, c.Namespace(t, "")}, &space{t, second, second.Namespace(t, "")}
	here.installs(applications)
	there.installs(applications)
	dev, east, west := argo{here, "dev"}, argo{here, "shop"}, argo{there, "shop"}
	for _, a := range []argo{dev, east, west} {
		a.make()
	}
	dir := t.TempDir()
	place(t, dir, "secrets/token", forgetest.Token)
	for name, in := range map[string]*space{"east": here, "west": there} {
		kubetest.Kubeconfig(t, filepath.Join(dir, name), in.Server, in.Token, in.namespace)
	}
	f := forgetest.New(t, "gitea", map[string]string{"prod.yaml": "targetRevision: v1.2.0\n"})
	w, end := watching(t, dir, func(cluster string) string { return filepath.Join(dir, cluster) }, func(d *definition.Definition) {
		of := func(cluster string, a argo) object.Object {
			return object.Object{Cluster: cluster, Kind: "Application", Namespace: a.namespace, Name: a.name}
		}
		d.Stages[0].Environment, d.Stages[0].Objects = "objects:shop/dev", []object.Object{of("east", dev)}
		d.Stages[1].Environment, d.Stages[1].Objects = "objects:shop/prod", []object.Object{of("east", east), of("west", west)}
		d.Stages[1].Strategy = definition.WithPullRequest
		d.Stages[1].PullRequest = &definition.PullRequest{
			Repository: f.Address(), File: "prod.yaml", Value: "targetRevision", Base: "main", Branch: "deployster/shop/prod",
			Provider: "gitea", TokenFile: "secrets/token", Timeout: definition.Duration(30 * time.Minute), CheckEvery: definition.Duration(200 * time.Millisecond),
		}
	})
	for _, a := range []argo{east, west} {
		a.runs("v1.2.0", "Healthy")
	}
	w.comesToSay("dev", "its sync status is not known yet")
	dev.runs("v1.3.0", "Healthy")
	w.comesToSay("dev", "its controller has not looked at it since its targetRevision was changed from v1.3.0 to v1.2.0")
	dev.change("spec", fields{"source": chart("v1.3.0")})
	w.comesToSay("dev", "revision v1.3.0 is current")
	kubetest.Until(t, "a pull request is open", func() (string, bool) { return fmt.Sprint(f.Pulls()), len(open(f)) == 1 })
	assert.Equal(t, "targetRevision: v1.3.0\n", f.Show("deployster/shop/prod", "prod.yaml"))
	w.comesToSay("prod", "waits to be merged: pull request 1")
	f.Merge(1)
	kubetest.Until(t, "that it is merged is recorded", func() (string, bool) { return w.story(), w.count(promotion.Merged, "prod", "v1.3.0") == 1 })

	for _, a := range []argo{east, west} {
		a.change("spec", fields{"source": chart("v1.3.0")})
	}
	east.runs("v1.3.0", "Healthy")
	west.runs("v1.3.0", "Progressing")
	w.comesToRecord("its health is Progressing")
	assert.Equal(t, 0, w.count(promotion.StageFinished, "prod", ""), "it is promoted before it is healthy")
	west.runs("v1.3.0", "Healthy")
	w.finishes("v1.3.0")
	assert.Len(t, f.Pulls(), 1)
	end()
}

// kind is what a cluster has to know before it takes objects of a controller, as the Go module of
// the controller has it.
type kind struct{ module, sum, file string }

var (
	kustomizations = kind{
		"github.com/fluxcd/kustomize-controller@v1.7.3", "h1:SzNnGn/4ObAPEHHleM5U7y/AKxKXph3Vj6ZhteeXw8M=",
		"config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml",
	}
	helmReleases = kind{
		"github.com/fluxcd/helm-controller@v1.4.0", "h1:rkm8rmB6Na7eNc4pJOnvtXEaJ19iKluRtayHKjBxcUM=",
		"config/crd/bases/helm.toolkit.fluxcd.io_helmreleases.yaml",
	}
	applications = kind{
		"github.com/argoproj/argo-cd/v3@v3.3.0", "h1:9UlruTd5cC/MyvorTXgAIblfZTy63MF5FYvvoAaUvwU=",
		"manifests/crds/application-crd.yaml",
	}
)

// object is the kind as an API server takes it.
func (k kind) object(t testing.TB) fields {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", k.module)
	download.Dir = "/" // it is no module that this one needs
	said, err := download.Output()
	var found struct{ Dir, Sum, Error string }
	if decoding := json.Unmarshal(said, &found); err != nil || decoding != nil || found.Sum != k.sum {
		t.Fatalf("download %s: %v %v: %s; its sum is %q, want %q", k.module, err, decoding, found.Error, found.Sum, k.sum)
	}
	text, err := os.ReadFile(filepath.Join(found.Dir, k.file))
	var object fields
	if err == nil {
		err = yaml.Unmarshal(text, &object)
	}
	require.NoError(t, err)
	return object
}

// installs makes a kind known to the cluster, where it is gone with the test.
func (f *space) installs(k kind) {
	f.Helper()
	object := k.object(f)
	name := object["metadata"].(map[string]any)["name"].(string)
	f.Create(f, definitions, object)
	f.Cleanup(func() {
		f.Ask(f, http.MethodDelete, definitions+"/"+name, nil)
		kubetest.AwaitGone(f, f.Cluster, definitions+"/"+name)
	})
	kubetest.Await(f, f.Cluster, definitions+"/"+name, "it is served", established)
}

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// defined is a kind as the API server has it.
type defined struct {
	Status struct {
		Conditions []struct{ Type, Status string }
	}
}

func established(d defined) bool {
	for _, c := range d.Status.Conditions {
		if c.Type == "Established" && c.Status == "True" {
			return true
		}
	}
	return false
}

// makes makes an object of which no controller has said anything.
func (f *space) makes(path, kind, name string, spec fields) {
	f.Helper()
	api := strings.Split(strings.TrimPrefix(path, "/apis/"), "/")
	f.Create(f, path+strict, fields{"apiVersion": api[0] + "/" + api[1], "kind": kind, "metadata": fields{"name": name}, "spec": spec})
}

// strict has an API server refuse members that a kind does not have.
const strict = "?fieldValidation=Strict"

// workload makes a workload of an image, or gives it another one.
func (f *space) workload(method, resource, kind, image string, replicas int) {
	f.Helper()
	labels := fields{"app": "shop"}
	spec := fields{"selector": fields{"matchLabels": labels}, "template": fields{
		"metadata": fields{"labels": labels}, "spec": fields{"containers": []any{fields{"name": "shop", "image": image}}},
	}}
	if replicas > 0 {
		spec["replicas"] = replicas
	}
	if kind == "StatefulSet" {
		spec["serviceName"] = "shop"
	}
	path := "/apis/apps/v1/namespaces/" + f.namespace + "/" + resource
	if method == http.MethodPut {
		path += "/shop"
	}
	f.Ask(f, method, path+"?fieldValidation=Strict", fields{"apiVersion": "apps/v1", "kind": kind, "metadata": fields{"name": "shop"}, "spec": spec})
}

// reports is what the controller of a workload says of it, as it is now.
func (f *space) reports(resource string, status fields) {
	f.Helper()
	path := "/apis/apps/v1/namespaces/" + f.namespace + "/" + resource + "/shop"
	var live fields
	require.NoError(f, json.Unmarshal(f.Ask(f, http.MethodGet, path, nil), &live))
	status["observedGeneration"] = live["metadata"].(map[string]any)["generation"]
	live["status"] = status
	f.Ask(f, http.MethodPut, path+"/status?fieldValidation=Strict", live)
}

// The tag of the image that a Deployment runs goes to a StatefulSet and a DaemonSet. Each runs an
// image when all of its Pods do, by what the API server has of it.
func TestARevisionGoesThroughWorkloads(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	f := &space{t, c, c.Namespace(t, "")}
	for resource, kind := range map[string]string{"deployments": "Deployment", "statefulsets": "StatefulSet", "daemonsets": "DaemonSet"} {
		replicas := 2
		if kind == "DaemonSet" {
			replicas = 0
		}
		f.workload(http.MethodPost, resource, kind, "registry.example/shop:41", replicas)
	}
	dir := t.TempDir()
	kubetest.Kubeconfig(t, filepath.Join(dir, "kubeconfig"), c.Server, c.Token, f.namespace)
	r := newReceiver(t)
	w, end := watching(t, r.workspace, func(string) string { return filepath.Join(dir, "kubeconfig") }, r.asks, func(d *definition.Definition) {
		of := func(kind string) object.Object {
			return object.Object{Cluster: "one", Kind: kind, Namespace: f.namespace, Name: "shop"}
		}
		d.Stages[0].Environment, d.Stages[0].Objects = "objects:shop/dev", []object.Object{of("Deployment")}
		d.Stages[1].Environment, d.Stages[1].Objects = "objects:shop/prod", []object.Object{of("StatefulSet"), of("DaemonSet")}
	})
	w.comesToSay("dev", "its controller has not looked at it yet")
	f.workload(http.MethodPut, "deployments", "Deployment", "registry.example/shop:42", 2)
	f.reports("deployments", fields{"replicas": 3, "readyReplicas": 3, "updatedReplicas": 2, "availableReplicas": 2})
	w.comesToSay("dev", "of before are still there")
	f.reports("deployments", fields{"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "availableReplicas": 2})
	w.comesToSay("dev", "revision 42 is current")
	sets := fields{"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "currentRevision": "shop-1", "updateRevision": "shop-1"}
	f.reports("statefulsets", sets)
	daemons := fields{"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}
	f.reports("daemonsets", daemons)
	kubetest.Until(t, "42 is asked for", func() (string, bool) {
		asked := r.take()
		return fmt.Sprint(asked), len(asked) == 1 && asked[0].Revision == "42"
	})

	f.workload(http.MethodPut, "daemonsets", "DaemonSet", "registry.example/shop:42", 0)
	f.reports("daemonsets", daemons)
	f.workload(http.MethodPut, "statefulsets", "StatefulSet", "registry.example/shop:42", 2)
	w.comesToRecord("its controller has not looked at it since it was changed: it has seen generation 1 of 2")
	sets["updateRevision"] = "shop-2"
	f.reports("statefulsets", sets)
	w.comesToRecord("shop-1 gives way to shop-2")
	sets["currentRevision"] = "shop-2"
	f.reports("statefulsets", sets)
	w.finishes("42")
	end()
}
