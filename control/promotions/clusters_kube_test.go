//go:build kube

package promotions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
	"github.com/deployster-go/deployster/internal/kubewatch"
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
