package promotion_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// inClusters has the last stage of a pipeline of two be objects in two clusters.
func inClusters(t *testing.T) *world {
	t.Helper()
	return newWorld(t, 2, definition.Promotion{Policy: definition.Single, Variable: "version", RetryAfter: dur(10 * time.Second)}, func(d *definition.Definition) {
		d.Stages[1] = definition.Stage{
			Name: "b", Environment: "objects:shop/b", Strategy: definition.WithWebhook, Webhook: &definition.Webhook{URL: "https://ci", Timeout: dur(time.Minute)},
			Objects: []object.Object{{Cluster: "east", Kind: "Kustomization", Namespace: "n", Name: "a"}, {Cluster: "west", Kind: "Kustomization", Namespace: "n", Name: "a"}},
		}
	})
}

func unwell(name, revision, why string) promotion.HostSighting {
	return promotion.HostSighting{Host: name, Revision: revision, Unhealthy: true, Why: why}
}

func TestWhatObjectsRunIsWhatWasSeenOfThem(t *testing.T) {
	const east, west = "east/n/Kustomization/a", "west/n/Kustomization/a"
	w := inClusters(t)
	w.runs("a", "1")
	w.decide()
	w.reads(promotion.Unobserved, "what object group shop/b runs is not known: it was not observed yet")
	w.sees(host(east, "0"), promotion.HostSighting{Host: west, Unknown: true, Why: "cluster west does not answer"})
	w.reads(promotion.Unobserved, west+": cluster west does not answer")
	w.sees(host(east, "0"), host(west, "0"))
	w.reads(promotion.Ready, "")

	// One that has the revision and is not well ends the search as one that is well does.
	w.sees(unwell(east, "1", "it is at work"), host(west, "0"))
	w.reads(promotion.Arriving, "some of object group shop/b runs revision 1: "+east+" is not well: it is at work, "+west+" runs revision 0")
	w.sees(unwell(east, "1", "it is at work"), unwell(west, "1", "it is at work"))
	w.reads(promotion.Arriving, east+" is not well: it is at work")
	assert.Equal(t, 1, w.sees(host(east, "1"), unwell(west, "1", "it is at work")), "that one is well now")
	w.sees(host(east, "1"), host(west, "1"))
	w.reads(promotion.There, "runs revision 1")

	r := w.state.Report(w.seen, w.now).Stages[1]
	if len(r.Hosts) != 0 || len(r.Objects) != 2 || r.Objects[0] != (promotion.ObjectReport{Object: east, Revision: "1", Health: promotion.Whole}) {
		t.Errorf("the report has %+v", r)
	}
}
