package definition

import (
	"slices"

	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Input is another pipeline, of which each revision takes one.
type Input struct {
	Pipeline string `json:"pipeline"`
	Passed   string `json:"passed,omitempty"` // the stage that it must have passed; "" is that it must have finished

	at     yamlfile.Position // of the name of the pipeline
	passed yamlfile.Position // of that of the stage
}

// Needed is what a revision needs of another pipeline, for all stages together: one revision,
// so that they agree.
type Needed struct {
	Pipeline string
	Passed   []string // the stages that it must have passed, as the definition has them
	Finished bool     // it must have finished

	inputs []Input
}

// Needs are the other pipelines of which each revision takes one, in the order of the stages.
func (d *Definition) Needs() (all []Needed) {
	for _, s := range d.Stages {
		for _, in := range s.Inputs {
			i := slices.IndexFunc(all, func(n Needed) bool { return n.Pipeline == in.Pipeline })
			if i < 0 {
				i, all = len(all), append(all, Needed{Pipeline: in.Pipeline})
			}
			n := &all[i]
			n.inputs = append(n.inputs, in)
			switch {
			case in.Passed == "":
				n.Finished = true
			case !slices.Contains(n.Passed, in.Passed):
				n.Passed = append(n.Passed, in.Passed)
			}
		}
	}
	return all
}

// At is where the file that was parsed names the pipeline first, or a stage of it; the zero
// Position in a definition that comes from the log.
func (n Needed) At(stage string) yamlfile.Position {
	for _, in := range n.inputs {
		if stage != "" && in.Passed == stage {
			return in.passed
		}
	}
	if len(n.inputs) == 0 {
		return yamlfile.Position{}
	}
	return n.inputs[0].at
}

// inputs reads what a stage takes of other pipelines.
func (p *parser) inputs(n *yamlfile.Node, s *Stage) {
	switch {
	case n == nil:
		return
	case s.Approval != nil:
		n.FailName("an approval applies nothing that could use inputs; they belong to the stages that do")
		return
	}
	first := map[string]*yamlfile.Node{}
	for _, one := range n.List("inputs", maxInputs) {
		if in, ok := p.input(one, first); ok {
			s.Inputs = append(s.Inputs, in)
		}
	}
}

// input reads one of the inputs of a stage; first are the pipelines of those before it.
func (p *parser) input(n *yamlfile.Node, first map[string]*yamlfile.Node) (in Input, ok bool) {
	fields, ok := n.Fields("an input", "pipeline", "passed")
	if !ok {
		return in, false
	}
	at := fields["pipeline"]
	if at == nil {
		n.Fail("the input has no pipeline, the name of the one whose revisions are taken")
		return in, false
	}
	if in.Pipeline, ok = at.Line("the name of a pipeline", maxPipeline); !ok {
		return in, false
	}
	in.at = at.Position
	switch before := first[in.Pipeline]; {
	case !validPipeline().MatchString(in.Pipeline):
		at.Fail("%q cannot be the name of a pipeline: %s", in.Pipeline, nameRule)
	case in.Pipeline == p.definition.Name:
		at.Fail("the pipeline cannot take its own revisions: name another pipeline; artifacts of its own stages are in the variable artifacts")
	case before != nil:
		at.Fail("duplicate input of pipeline %q, first at %d:%d: a revision takes one of each pipeline; where it must have passed several stages, name the last of them", in.Pipeline, before.Position.Line, before.Position.Column)
	default:
		first[in.Pipeline] = at
	}
	if at := fields["passed"]; at != nil {
		in.passed = at.Position
		if in.Passed, ok = at.Line("the name of a stage of that pipeline", maxName); ok && !validName().MatchString(in.Passed) {
			at.Fail("%q cannot be the name of a stage: %s, in parts divided by /", in.Passed, nameRule)
		}
	}
	return in, true
}
