package upstream

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Need is a pipeline of which a release takes a revision.
type Need struct {
	Pipeline   string
	Candidates []Input // newest first; one at least
}

// Chosen is the revision that is taken of a pipeline.
type Chosen struct {
	Input
	Newer Release // the newest candidate, where it is another one
	Why   Split   // why that is not taken
}

// Split is where two revisions lead to different ones of a pipeline, so that no release takes
// both.
type Split struct {
	A, B       Release
	Pipeline   string
	OfA, OfB   Release // of the pipeline; A or B itself where that is the pipeline's
	deployment bool    // the names of the revisions do not tell them apart
}

// String says it in words.
func (s Split) String() string {
	ofA, ofB := s.OfA.String(), s.OfB.String()
	if s.deployment {
		ofA, ofB = ofA+" (deployment "+s.OfA.Deployment+")", ofB+" (deployment "+s.OfB.Deployment+")"
	}
	switch {
	case s.A.Pipeline == s.Pipeline:
		return fmt.Sprintf("%s was released with %s and not with %s", s.B, ofB, ofA)
	case s.B.Pipeline == s.Pipeline:
		return fmt.Sprintf("%s was released with %s and not with %s", s.A, ofA, ofB)
	default:
		return fmt.Sprintf("%s was released with %s, and %s with %s", s.A, ofA, s.B, ofB)
	}
}

// DisagreementError is why there is no combination: no candidates go with each other.
type DisagreementError struct {
	Pipelines []string // whose candidates do not go with each other
	Split     Split    // of the newest of the first two
}

// Error says which do not, and where.
func (e *DisagreementError) Error() string {
	if len(e.Pipelines) == 2 {
		return fmt.Sprintf("%s do not go together: %s", strings.Join(e.Pipelines, " and "), e.Split)
	}
	return fmt.Sprintf("%s do not go together, although any two of them do: for example, %s", strings.Join(e.Pipelines, ", "), e.Split)
}

// ErrTooMany is that nothing was found before too many combinations had been tried.
var ErrTooMany = errors.New("too many combinations of revisions would have to be tried")

// mostCompared is how many pairs of candidates are compared.
const mostCompared = 5_000_000

// Choose finds the newest combination of a candidate for each need in which all lead to the
// same revision of every pipeline to which more than one leads: the newest candidate of the
// first need with which there is a combination, with that the newest of the second, and so
// on. own is the pipeline that is released, whose own revisions need not agree. It fails with
// a *DisagreementError where there is no combination, and with ErrTooMany.
func Choose(own string, needs []Need) ([]Chosen, error) {
	s := newSearch(own, needs)
	if !s.choose(0, s.options) {
		if s.compared > mostCompared {
			return nil, ErrTooMany
		}
		return nil, s.explain(needs)
	}
	chosen := make([]Chosen, len(needs))
	for i, need := range needs {
		chosen[i].Input = need.Candidates[s.picked[i]]
	}
	for i, need := range needs {
		newest := need.Candidates[0]
		if s.picked[i] == 0 {
			continue
		}
		chosen[i].Newer = newest.Release
		for j := range chosen {
			if split, differ := s.split(newest, chosen[j].Input); j != i && differ {
				chosen[i].Why = split
				break
			}
		}
	}
	return chosen, nil
}

// option is a candidate as the search sees it: the deployments, by pipeline, to which it leads
// of pipelines to which candidates of several needs lead. Of several that lead to the same
// only the newest is an option.
type option struct {
	at    int // in Candidates
	leads map[string]string
}

func (o option) agrees(other option) bool {
	for pipeline, deployment := range o.leads {
		if d, ok := other.leads[pipeline]; ok && d != deployment {
			return false
		}
	}
	return true
}

type search struct {
	own      string
	options  [][]option // of each need
	picked   []int      // of each need, the index in Candidates
	compared int
}

func newSearch(own string, needs []Need) *search {
	s := &search{own: own, options: make([][]option, len(needs)), picked: make([]int, len(needs))}
	lead := map[string]int{} // to each pipeline, so many needs
	for _, need := range needs {
		to := map[string]bool{}
		for _, c := range need.Candidates {
			for pipeline := range s.leads(c) {
				to[pipeline] = true
			}
		}
		for pipeline := range to {
			lead[pipeline]++
		}
	}
	for i, need := range needs {
		known := map[string]bool{}
		for at, c := range need.Candidates {
			o := option{at: at, leads: map[string]string{}}
			var key strings.Builder
			leads := s.leads(c)
			for _, pipeline := range slices.Sorted(maps.Keys(leads)) {
				if lead[pipeline] > 1 {
					o.leads[pipeline] = leads[pipeline].Deployment
					fmt.Fprintf(&key, "%q %q ", pipeline, leads[pipeline].Deployment)
				}
			}
			if !known[key.String()] {
				known[key.String()] = true
				s.options[i] = append(s.options[i], o)
			}
		}
	}
	return s
}

// leads are the revisions to which a candidate leads, by pipeline.
func (s *search) leads(c Input) map[string]Release {
	all := map[string]Release{}
	for _, r := range c.Inputs {
		all[r.Pipeline] = r
	}
	all[c.Pipeline] = c.Release
	delete(all, s.own)
	return all
}

// choose picks options for the needs from i on, for which those are left that agree with all
// that is picked. Each of those is tried with what it leaves to the others, so that an option
// without which nothing is left costs no further search.
func (s *search) choose(i int, left [][]option) bool {
	if i == len(s.picked) {
		return true
	}
next:
	for _, o := range left[0] {
		if s.compared > mostCompared {
			return false
		}
		rest := make([][]option, len(left)-1)
		for j, others := range left[1:] {
			s.compared += len(others)
			for _, other := range others {
				if o.agrees(other) {
					rest[j] = append(rest[j], other)
				}
			}
			if len(rest[j]) == 0 {
				continue next
			}
		}
		s.picked[i] = o.at
		if s.choose(i+1, rest) {
			return true
		}
	}
	return false
}

// split finds where two revisions lead to different ones of a pipeline.
func (s *search) split(a, b Input) (Split, bool) {
	ofA, ofB := s.leads(a), s.leads(b)
	for _, pipeline := range slices.Sorted(maps.Keys(ofA)) {
		if other, both := ofB[pipeline]; both && other.Deployment != ofA[pipeline].Deployment {
			return Split{A: a.Release, B: b.Release, Pipeline: pipeline, OfA: ofA[pipeline], OfB: other, deployment: other.Revision == ofA[pipeline].Revision}, true
		}
	}
	return Split{}, false
}

// explain finds two needs of which no candidates go with each other, or else says it of all.
func (s *search) explain(needs []Need) error {
	e := &DisagreementError{}
	for i := range needs {
		e.Pipelines = append(e.Pipelines, needs[i].Pipeline)
		for j := range needs[:i] {
			split, differ := s.split(needs[j].Candidates[0], needs[i].Candidates[0])
			if differ && e.Split.Pipeline == "" {
				e.Split = split
			}
			agree := slices.ContainsFunc(s.options[j], func(o option) bool { return slices.ContainsFunc(s.options[i], o.agrees) })
			if !agree {
				return &DisagreementError{Pipelines: []string{needs[j].Pipeline, needs[i].Pipeline}, Split: split}
			}
		}
	}
	return e
}
