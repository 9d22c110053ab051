package upstream

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// Pipeline is one whose revisions others take, as of one moment.
type Pipeline interface {
	Definition() *definition.Definition
	Defined() error                              // refuses one that was deleted
	Stage(name string) (whole string, err error) // refuses a stage that it does not have
	Candidates(n definition.Needed) ([]Input, error)
	Candidate(n definition.Needed, revision string) (Input, error)
}

// Pipelines finds a pipeline by its name, and refuses one that there never was.
type Pipelines func(name string) (Pipeline, error)

// The reasons for which Take and Check refuse something.
const (
	Disagree     refusal.Code = "inputs-disagree"
	UnknownInput refusal.Code = "unknown-input"
	InCircle     refusal.Code = "inputs-in-circle"
)

// ErrUnknown is wrapped where there is no input of a name.
var ErrUnknown = errors.New("unknown")

// Take finds the revisions of other pipelines that a release of a pipeline takes, all as of
// one moment. Of each pipeline it is the one that a person named, or else the newest with which
// all agree; see Choose.
func Take(d *definition.Definition, named map[string]string, of Pipelines) ([]Chosen, error) {
	needs := d.Needs()
	problems := []error{notNeeded(d.Name, needs, named)}
	given, all := make([]Need, len(needs)), make([]Need, len(needs))
	for i, n := range needs {
		var err error
		if given[i], all[i], err = offered(n, named[n.Pipeline], of); err != nil {
			problems = append(problems, fmt.Errorf("input %s: %w", n.Pipeline, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	chosen, err := Choose(d.Name, given)
	if err != nil {
		return nil, refusal.New(Disagree, "the inputs of pipeline %s: %w; %s", d.Name, err, remedy(d.Name, err, named, all))
	}
	return chosen, nil
}

// offered are the revisions of a pipeline that may be taken: those that a person allows, and
// all.
func offered(n definition.Needed, revision string, of Pipelines) (given, all Need, err error) {
	p, err := of(n.Pipeline)
	if err != nil {
		return given, all, err
	}
	all = Need{Pipeline: n.Pipeline}
	if revision == "" {
		all.Candidates, err = p.Candidates(n)
		return all, all, err
	}
	one, err := p.Candidate(n, revision)
	if err != nil {
		return given, all, err
	}
	all.Candidates, err = p.Candidates(n)
	return Need{Pipeline: n.Pipeline, Candidates: []Input{one}}, all, err
}

// notNeeded refuses revisions that a person named of pipelines that are no inputs.
func notNeeded(own string, needs []definition.Needed, named map[string]string) error {
	var names []string
	for _, n := range needs {
		names = append(names, n.Pipeline)
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(named)) {
		meant := suggest.Closest(name, names)
		switch {
		case slices.Contains(names, name):
		case meant != "":
			problems = append(problems, refusal.New(UnknownInput, "%w input %q of pipeline %s: did you mean %s?", ErrUnknown, name, own, meant))
		case len(names) == 0:
			problems = append(problems, refusal.New(UnknownInput, "%w input %q: no stage of pipeline %s has inputs", ErrUnknown, name, own))
		default:
			problems = append(problems, refusal.New(UnknownInput, "%w input %q of pipeline %s: it takes %s", ErrUnknown, name, own, strings.Join(names, ", ")))
		}
	}
	return errors.Join(problems...)
}

// remedy is what helps where revisions do not go together.
func remedy(own string, err error, named map[string]string, all []Need) string {
	if len(named) > 0 {
		if chosen, err := Choose(own, all); err == nil {
			var would []string
			for _, c := range chosen {
				would = append(would, c.String())
			}
			return "name others, or none: then it takes " + strings.Join(would, ", ")
		}
	}
	var disagree *DisagreementError
	if !errors.As(err, &disagree) {
		return "name one of them (--input PIPELINE=REVISION)"
	}
	split := disagree.Split
	var ways []string
	if split.A.Pipeline != split.Pipeline {
		ways = append(ways, fmt.Sprintf("of %s with %s", split.A.Pipeline, split.OfB))
	}
	if split.B.Pipeline != split.Pipeline {
		ways = append(ways, fmt.Sprintf("of %s with %s", split.B.Pipeline, split.OfA))
	}
	return "release a revision " + strings.Join(ways, " or ") + ", and let it pass"
}

// Missing is the first need of a definition that the inputs of a revision do not meet, as what
// it takes; "" is none.
func Missing(d *definition.Definition, inputs []Input) string {
	for _, n := range d.Needs() {
		i := slices.IndexFunc(inputs, func(in Input) bool { return in.Pipeline == n.Pipeline })
		if i < 0 {
			return "no revision of pipeline " + n.Pipeline
		}
		in := inputs[i]
		if n.Finished && !in.Finished {
			return fmt.Sprintf("%s, which need not have finished", in)
		}
		for _, stage := range n.Passed {
			passed := func(whole string) bool {
				return definition.Path(n.Pipeline, whole) == definition.Path(n.Pipeline, stage) || strings.HasSuffix(whole, "/"+stage)
			}
			if !slices.ContainsFunc(in.Passed, passed) {
				return fmt.Sprintf("%s, which need not have passed stage %s", in, stage)
			}
		}
	}
	return ""
}
