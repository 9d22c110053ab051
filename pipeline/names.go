package pipeline

import (
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Stage is the whole name of the stage that a person means: the name itself, with or
// without the pipeline's before it, or its last parts where no other stage has these.
func (s *State) Stage(name string) (string, error) {
	if err := s.isDefined(); err != nil {
		return "", err
	}
	return s.resolve(UnknownStage, "stage", name, s.stageNames())
}

// Group is the whole name of the host group that a person means, as Stage is of a stage.
func (s *State) Group(name string) (string, error) {
	if err := s.isDefined(); err != nil {
		return "", err
	}
	return s.resolve(UnknownGroup, "host group", name, s.groupNames())
}

func (s *State) stageNames() (names []string) {
	for i := range s.definition.Stages {
		names = append(names, s.definition.Stages[i].Name)
	}
	return names
}

func (s *State) groupNames() (names []string) {
	for _, g := range s.definition.Groups() {
		names = append(names, g.Name)
	}
	return names
}

func (s *State) resolve(code refusal.Code, what, name string, known []string) (string, error) {
	found, meant := definition.Match(s.name, name, known)
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", refusal.New(AmbiguousName, "%w %s %q of pipeline %s: it may be %s; give the whole name", ErrAmbiguous, what, name, s.name, strings.Join(found, " or "))
	case meant != "":
		return "", refusal.New(code, "%w %s %q of pipeline %s: did you mean %s?", ErrUnknown, what, name, s.name, meant)
	default:
		return "", s.unknown(code, what, name, known)
	}
}

// whole is a target with the whole name of its stage or host group, where that is
// unambiguous; others are the targets that it may be where it is not.
func (s *State) whole(t deploylog.Target) (target deploylog.Target, others []string) {
	if s.definition == nil {
		return t, nil
	}
	kind, host, known := t.Kind(), "", s.groupNames()
	if kind == "stage" {
		known = s.stageNames()
	}
	at := t
	if kind == "host" {
		group, name, _ := record.GroupOf(t)
		at, host = group, "/"+name
	}
	name, ours := strings.CutPrefix(string(at), at.Kind()+"/"+s.name+"/")
	if !ours || kind == "pipeline" {
		return t, nil
	}
	found, _ := definition.Match(s.name, name, known)
	for _, f := range found {
		others = append(others, kind+"/"+definition.Path(s.name, f)+host)
	}
	if len(others) == 1 {
		return deploylog.Target(others[0]), nil
	}
	return t, others
}
