//go:build kube

package promotions_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
	"github.com/deployster-go/deployster/internal/pullrequest/forgetest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

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
