package pipeline

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// regions is a pipeline whose stages and groups differ by region, and that has its own
// name before one of them.
func regions() *definition.Definition {
	approval := func(name string, after ...string) definition.Stage {
		return definition.Stage{Name: name, After: after, Approval: &definition.Approval{}}
	}
	return &definition.Definition{Name: "gw", Stages: []definition.Stage{
		approval("eu/approve"), approval("us/approve"), approval("gw/legal"), deployTo("eu/beta", []string{"eu/approve"}, "eu/hosts", deployed),
		deployTo("eu/prod", []string{"eu/beta"}, "eu/all", deployed), deployTo("prod", []string{"eu/prod"}, "us/all", deployed),
	}}
}

func TestAStageIsNamedByItsLastPartWhereOnlyOneHasIt(t *testing.T) {
	w := newTale(t, regions(), nil)
	for name, want := range map[string]string{
		"eu/beta": "eu/beta", "beta": "eu/beta", "gw/eu/beta": "eu/beta", "legal": "gw/legal", "gw/legal": "gw/legal",
		"prod": "prod", "gw/prod": "prod", "eu/prod": "eu/prod",
	} {
		got, err := w.state.Stage(name)
		assert.True(t, err == nil && got == want, "%s is %s, %v, want %s", name, got, err, want)
	}
	got, err := w.state.Group("hosts")
	assert.True(t, err == nil && got == "eu/hosts", "the group is %s, %v", got, err)
	for _, c := range []struct {
		command Command
		code    refusal.Code
		want    string
	}{
		{Approve{Revision: "1", Stage: "approve"}, AmbiguousName, `ambiguous stage "approve" of pipeline gw: it may be eu/approve or us/approve; give the whole name`},
		{Approve{Revision: "1", Stage: "leagl"}, UnknownStage, `unknown stage "leagl" of pipeline gw: did you mean gw/legal?`},
		{Approve{Revision: "1", Stage: "zzz"}, UnknownStage, `unknown stage "zzz" of pipeline gw: it has eu/approve, us/approve, gw/legal, eu/beta, eu/prod, prod`},
		{Approve{Revision: "1", Stage: "/approve"}, UnknownStage, `unknown stage "/approve"`},
		{Confirm{Group: "all"}, AmbiguousName, `ambiguous host group "all" of pipeline gw: it may be eu/all or us/all`},
		{Confirm{Group: "hsots"}, UnknownGroup, "did you mean eu/hosts?"},
		{Confirm{Group: "hosts"}, NothingToConfirm, "host group eu/hosts has nothing to confirm"},
	} {
		if _, known := w.state.byRevision["1"]; !known {
			w.release("1")
		}
		w.says(w.refused(c.command, c.code), c.want)
	}
	w.idle()
	w.do(Approve{Revision: "1", Stage: "legal"})
	e := w.log[len(w.log)-1]
	assert.True(t, e.Target == "stage/gw/legal", "approved is %s", e.Target)
}

func TestATargetIsExplainedByTheLastPartOfItsName(t *testing.T) {
	w := newTale(t, regions(), map[string][]string{"eu/hosts": {"h"}})
	w.release("1")
	for target, want := range map[deploylog.Target]string{
		"stage/gw/beta":    "1 stage-started: awaits-stage eu/approve stage/gw/eu/approve",
		"host/gw/hosts/h":  "1 stage-started: awaits-stage eu/approve stage/gw/eu/approve",
		"stage/gw/approve": " : no-target stage/gw/eu/approve or stage/gw/us/approve",
		"host/gw/hosts/x":  " : no-member eu/hosts host-group-members-changed host-group/gw/eu/hosts #2",
	} {
		w.explains(target, want)
	}
}
