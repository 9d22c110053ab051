package clusters_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/control/clusters"
	"github.com/deployster-go/deployster/internal/kubewatch"
	"github.com/deployster-go/deployster/internal/kubewatch/apitest"
	"github.com/deployster-go/deployster/internal/waittest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// observer is the one goroutine that calls Observed: that of the test.
type observer struct {
	*testing.T
	*clusters.Observed
	watched *kubewatch.Clusters
	inbox   chan func()
}

func newObserver(t *testing.T, of map[string]*apitest.Server) *observer {
	access := map[string]kubewatch.Access{}
	for name, s := range of {
		access[name] = kubewatch.Access{Kubeconfig: s.Kubeconfig(t)}
	}
	o := &observer{T: t, inbox: make(chan func(), 100), watched: kubewatch.New(kubewatch.Options{Retry: 5 * time.Millisecond, Find: func(name string) (kubewatch.Access, error) {
		if a, is := access[name]; is {
			return a, nil
		}
		return kubewatch.Access{}, fmt.Errorf("there is no cluster %s in the inventory", name)
	}})}
	o.Observed = clusters.New(clusters.Options{
		Watcher: o.watched, Changed: func(string) {}, Post: func(f func()) { o.inbox <- f },
		Go: func(job func(context.Context) func()) func() {
			ctx, end := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { job(ctx); close(ended) }()
			return func() { end(); <-ended }
		},
	})
	return o
}

// sees waits until a stage is seen to run something, as text.
func (o *observer) sees(place, want string) {
	o.Helper()
	got, late := "", time.After(waittest.Limit)
	for {
		if seen, ok := o.Seen(place); ok {
			if got = words(seen); strings.Contains(got, want) {
				return
			}
		}
		select {
		case do := <-o.inbox:
			do()
		case <-late:
			o.Fatalf("%s runs %s, and never %s", place, got, want)
		}
	}
}

func (o *observer) watches(clusters, watches int) {
	c, w := o.watched.Watched()
	assert.Equal(o, [2]int{clusters, watches}, [2]int{c, w})
}

func words(seen promotion.Sighting) string {
	var all []string
	for _, h := range seen.Hosts {
		text := h.Host + "=" + h.Revision
		switch {
		case h.Changing:
			text += " changing"
		case h.Unhealthy:
			text += " unwell"
		}
		if h.Unknown {
			text += "?"
		}
		if h.Why != "" {
			text += " (" + h.Why + ")"
		}
		all = append(all, text)
	}
	return strings.Join(append(all, fmt.Sprint("all=", seen.Value)), " ")
}

func TestAStageRunsWhatItsObjectsSay(t *testing.T) {
	east, west := apitest.New(t), apitest.New(t)
	o := newObserver(t, map[string]*apitest.Server{"east": east, "west": west})
	const (
		flux   = `{"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "lastAppliedRevision": "%s", "conditions": [{"type": "Ready", "status": "%s"}]}}`
		rolled = `{"metadata": {"generation": 1}, "spec": {"template": {"spec": {"containers": [{"image": "acme/shop:42"}]}}}, "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}}`
	)
	prod := []object.Object{
		{Cluster: "east", Kind: "Kustomization", Namespace: "flux", Name: "shop"}, {Cluster: "west", Kind: "Deployment", Namespace: "shop", Name: "web"},
	}
	o.Use(clusters.Stage{Place: "prod", Objects: prod})
	o.sees("prod", "east/flux/Kustomization/shop= (it does not exist) west/shop/Deployment/web= (it does not exist) all=<nil>")
	east.Put("kustomizations/flux/shop", fmt.Sprintf(flux, "41", "False"))
	west.Put("deployments/shop/web", rolled)
	o.sees("prod", "east/flux/Kustomization/shop=41 unwell (its condition Ready is False) west/shop/Deployment/web=42 all=<nil>")
	east.Put("kustomizations/flux/shop", fmt.Sprintf(flux, "42", "True"))
	o.sees("prod", "east/flux/Kustomization/shop=42 west/shop/Deployment/web=42 all=42")
	west.Down()
	o.sees("prod", "west/shop/Deployment/web=? (cluster west does not answer")
	west.Up()
	o.sees("prod", "all=42")

	// Two stages with the same object share what watches it, and each ends its own part.
	o.Use(clusters.Stage{Place: "other", Objects: prod[:1]})
	o.sees("other", "east/flux/Kustomization/shop=42 all=42")
	o.watches(2, 2)
	o.Use(clusters.Stage{Place: "prod", Objects: []object.Object{{Cluster: "north", Kind: "Site", APIVersion: "acme.example/v1", Name: "shop"}}})
	_, ok := o.Seen("prod")
	assert.False(t, ok, "another object is known before it was seen")
	o.sees("prod", "north/Site.acme.example/shop=? (cluster north: find out how it is reached: there is no cluster north in the inventory)")
	o.Leave("prod")
	o.Leave("other")
	o.watches(0, 0)
	o.watched.Wait()
}
