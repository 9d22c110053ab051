package build

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/internal/suggest"
)

// Find is the id of a group that is named by it, or by the name of what is built: then the
// newest. The error names those that exist.
func (s *State) Find(text string) (id string, err error) {
	if s.byID[text] != nil {
		return text, nil
	}
	if named := s.byName[text]; len(named) > 0 {
		return named[len(named)-1].id, nil
	}
	if len(s.groups) == 0 {
		return "", refusal.New(UnknownGroup, "%w %.60q: there is none yet: deployster build submit -f packages.yaml", ErrNoGroup, text)
	}
	const named = 10
	var ids, known []string
	for _, g := range slices.Backward(s.groups) {
		if known = append(known, g.id); len(ids) < named {
			ids = append(ids, g.id)
		}
	}
	for name := range s.byName {
		known = append(known, name)
	}
	meant := ""
	if closest := suggest.Closest(text, known); closest != "" {
		meant = "; did you mean " + closest + "?"
	}
	others := ""
	if n := len(s.groups) - len(ids); n > 0 {
		others = fmt.Sprintf(" and %d older", n)
	}
	return "", refusal.New(UnknownGroup, "%w %.60q: there are %s%s%s", ErrNoGroup, text, strings.Join(ids, ", "), others, meant)
}

// known is the group that Find finds.
func (s *State) known(id string) (*group, error) {
	if g := s.byID[id]; g != nil {
		return g, nil
	}
	id, err := s.Find(id)
	return s.byID[id], err
}

// FindJob is the number of a job that is named by that or by its package, PACKAGE#PASS, which
// without a pass is the last.
func (s *State) FindJob(id, text string) (number int, err error) {
	g, err := s.known(id)
	if err != nil {
		return 0, err
	}
	if n, err := strconv.Atoi(text); err == nil {
		if n < 1 || n > len(g.jobs) {
			return 0, refusal.New(UnknownJob, "%w %d in build group %s: it has %s", ErrNoJob, n, id, phrase.Count(len(g.jobs), "job"))
		}
		return n, nil
	}
	name, pass := text, 0
	if before, after, ok := strings.Cut(text, "#"); ok {
		if pass, err = strconv.Atoi(after); err != nil || pass < 1 {
			return 0, refusal.New(UnknownJob, "%w %.60q in build group %s: after # a pass is expected, from 1", ErrNoJob, text, id)
		}
		name = before
	}
	var passes int
	for i := range slices.Backward(g.specs) {
		if g.specs[i].Package != name {
			continue
		}
		if passes = max(passes, g.specs[i].Pass, 1); pass == 0 || max(g.specs[i].Pass, 1) == pass {
			return i + 1, nil
		}
	}
	if passes > 0 {
		return 0, refusal.New(UnknownJob, "%w %.60q in build group %s: it is built only %d times", ErrNoJob, text, id, passes)
	}
	var names []string
	for i := range g.specs {
		names = append(names, g.specs[i].Package)
	}
	if meant := suggest.Closest(name, names); meant != "" {
		return 0, refusal.New(UnknownJob, "%w %.60q in build group %s; did you mean %s?", ErrNoJob, text, id, meant)
	}
	return 0, refusal.New(UnknownJob, "%w %.60q in build group %s: deployster build jobs %s lists them", ErrNoJob, text, id, id)
}
