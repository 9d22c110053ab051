package pipeline

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

func TestARevisionInProgressReplacesWhatFinishedTheStageLast(t *testing.T) {
	d := &definition.Definition{Name: "p", Stages: []definition.Stage{
		deployTo("beta", nil, "betas", deployed), run("smoke", "beta"), deployTo("prod", []string{"smoke"}, "prods", deployed),
	}}
	w := newTale(t, d, map[string][]string{"betas": {"b1"}, "prods": {"h1", "h2"}})
	all := func(of string) []Replacement { return w.state.Replacements(stageOf(of)) }
	files := record.Files{"host-deployed.yaml": "1", "smoke.yaml": "1"}
	w.do(Release{Revision: "1", ID: w.id(), Carries: files})
	assert.Empty(t, w.state.Replacements(record.Target("p")), "nothing is on the hosts")
	w.idle()
	w.wantEnded("1", deployment.Finished, "", "")
	one := w.registered("1").Deployment
	beta, prod := []string{"beta"}, []string{"prod"}
	w.do(Release{Revision: "2", ID: w.id(), Carries: files})
	two := w.registered("2").Deployment
	assert.Equal(t, []Replacement{{"beta", "2", two, one, beta}, {"prod", "2", two, one, prod}}, w.state.Replacements(record.Target("p")))
	assert.Equal(t, []Replacement{{"prod", "2", two, one, prod}}, w.state.Replacements(record.HostTarget("p", "prods", "h2")))
	assert.Empty(t, all("smoke"))
	assert.Empty(t, all("other"))
	w.until("2", stageOf("smoke"), record.StageStarted)
	assert.Empty(t, all("beta"), "it is there")
	assert.Len(t, all("prod"), 1)
	w.idle()
	assert.Empty(t, all("prod"))

	w.do(Rollback{Stage: "prod", Revision: "1", ID: "back", By: "ann"})
	assert.Equal(t, []Replacement{{"prod", "1", "back", two, prod}}, w.state.Replacements(record.Target("p")))
	w.idle()
	w.do(Rerun{Stage: "prod", Revision: "1", ID: "again"})
	assert.Empty(t, all("prod"), "it is the same revision")
}

// A revision that failed half-way leaves what it brought on the hosts where it began.
func TestARevisionReplacesWhatFailedHalfWay(t *testing.T) {
	d := &definition.Definition{Name: "p", Stages: []definition.Stage{deployTo("prod", nil, "prods", deployed)}}
	w := newTale(t, d, map[string][]string{"prods": {"h1", "h2"}})
	files := record.Files{"host-deployed.yaml": "1"}
	for _, revision := range []string{"1", "2"} {
		if revision == "2" {
			w.fails["host/p/prods/h2 "+deployed] = "disk full"
		}
		w.do(Release{Revision: revision, ID: w.id(), Carries: files})
		w.idle()
	}
	clear(w.fails)
	w.wantEnded("2", deployment.Failed, "", "stage prod failed: host group prods failed: 1 of 2 hosts failed, 0 may: h2: host-deployed failed: disk full")
	one, two, prod := w.registered("1").Deployment, w.registered("2").Deployment, []string{"prod"}
	host := func(h string) []Replacement { return w.state.Replacements(record.HostTarget("p", "prods", h)) }

	w.do(Release{Revision: "3", ID: w.id(), Carries: files, Fix: true})
	three := w.registered("3").Deployment
	assert.Equal(t, []Replacement{{"prod", "3", three, two, prod}}, host("h1"))
	assert.Equal(t, []Replacement{{"prod", "3", three, one, prod}, {"prod", "3", three, two, prod}}, host("h2"))
	w.do(Cancel{Revision: "3"})

	w.do(Rollback{Stage: "prod", Revision: "1", ID: "back", By: "ann"})
	want := []Replacement{{"prod", "1", "back", two, prod}}
	assert.Equal(t, want, host("h1"))
	assert.Equal(t, want, host("h2"), "it has a part of it")
	assert.Equal(t, want, w.state.Replacements(record.Target("p")))
	w.idle()
	assert.Empty(t, w.state.Replacements(record.Target("p")))
}

func TestAReplacementNamesTheStagesWithTheSameHosts(t *testing.T) {
	d := &definition.Definition{Name: "p", Stages: []definition.Stage{
		deployTo("beta", nil, "betas", deployed), deployTo("prod", []string{"beta"}, "prods", deployed),
	}}
	w := newTale(t, d, map[string][]string{"betas": {"h1"}, "prods": {"h1", "h2"}})
	files := record.Files{"host-deployed.yaml": "1"}
	w.do(Release{Revision: "1", ID: w.id(), Carries: files})
	w.idle()
	w.do(Release{Revision: "2", ID: w.id(), Carries: files})
	one, two := w.registered("1").Deployment, w.registered("2").Deployment
	assert.Equal(t, []Replacement{{"prod", "2", two, one, []string{"beta", "prod"}}, {"prod", "2", two, one, []string{"prod"}}}, w.state.Replacements(stageOf("prod")))
	assert.Equal(t, []Replacement{{"prod", "2", two, one, []string{"prod"}}}, w.state.Replacements(record.HostTarget("p", "prods", "h2")))
}
