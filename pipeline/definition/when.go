package definition

import (
	"slices"

	"github.com/deployster-go/deployster/internal/yamlfile"
)

// readWhen reads after which end of the earlier stages a stage runs.
func readWhen(n *yamlfile.Node, s *Stage) {
	if n == nil {
		return
	}
	all := []string{string(Always), string(WhenFailed)}
	switch text, ok := n.Line("always or failed", maxName); {
	case !ok:
	case !slices.Contains(all, text):
		n.FailLike(text, all, "there is no when %.60q; without one the stage runs after success", text)
	case s.Run == nil && s.Deploy == nil:
		n.FailName("only a stage with run or deploy can have when, not this %s: %s", s.Kind(), s.neverCloses())
	default:
		s.When = When(text)
	}
}

// neverCloses returns why a stage that has neither run nor deploy cannot have when.
func (s *Stage) neverCloses() string {
	switch {
	case s.Environment != "":
		return "it would deploy the revision, also one that has failed"
	case s.Build != nil:
		return "only later stages use what it builds, and none comes after a stage with when"
	default:
		return "it only lets later stages begin, and none comes after a stage with when"
	}
}

// checkWhen reports stages with when that others come after, or that come after none.
func (p *parser) checkWhen() {
	stages := p.definition.Stages
	for i := range stages {
		at := p.named[i]
		if n := p.after[i]; n != nil {
			at = n
		}
		if stages[i].Closing() {
			if len(stages[i].After) == 0 {
				at.Fail("the stage has when, and comes after no stage; name those after whose end it runs with after")
			}
			continue
		}
		for _, name := range stages[i].After {
			if stages[p.index[name]].Closing() {
				at.Fail("the stage comes after %q, which has when: only stages that have when, too, can; name others with after", name)
			}
		}
	}
}
