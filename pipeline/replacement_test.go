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
	w.do(Release{Revision: "2", ID: w.id(), Carries: files})
	two := w.registered("2").Deployment
	assert.Equal(t, []Replacement{{"beta", "2", two, one}, {"prod", "2", two, one}}, w.state.Replacements(record.Target("p")))
	assert.Equal(t, []Replacement{{"prod", "2", two, one}}, w.state.Replacements(record.HostTarget("p", "prods", "h2")))
	assert.Empty(t, all("smoke"))
	assert.Empty(t, all("other"))
	w.until("2", stageOf("smoke"), record.StageStarted)
	assert.Empty(t, all("beta"), "it is there")
	assert.Len(t, all("prod"), 1)
	w.idle()
	assert.Empty(t, all("prod"))

	w.do(Rollback{Stage: "prod", Revision: "1", ID: "back", By: "ann"})
	assert.Equal(t, []Replacement{{"prod", "1", "back", two}}, w.state.Replacements(record.Target("p")))
	w.idle()
	w.do(Rerun{Stage: "prod", Revision: "1", ID: "again"})
	assert.Empty(t, all("prod"), "it is the same revision")
}
