package pipeline

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/reason"
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

// Bound is the inventory over which the queries of the definition are: by its name, or by
// the path of its file where it has none. "" is any, of a pipeline that selects no hosts, or
// that a former version defined.
func (s *State) Bound() string { return s.inventory }

// OtherThan is why who has another inventory leaves the pipeline alone; nil where it is the
// one that the pipeline is bound to. Hosts of one inventory are not those of another, also
// where they have the same names.
func (s *State) OtherThan(inventory string) *reason.Reason {
	if s.inventory == "" || s.inventory == inventory {
		return nil
	}
	return &reason.Reason{Code: reason.OtherInventory, Target: s.target, Event: record.MembersChanged, Name: s.inventory, Cause: inventory, By: s.target, ByEvent: record.PipelineDefined, Seq: s.defined}
}

// Place is where something of a pipeline is deployed: the pipeline itself, a
// stage, a host group or a host.
type Place struct {
	Target deploylog.Target `json:"target"`
	Stage  string           `json:"stage,omitempty"`
	Group  string           `json:"host_group,omitempty"`
	Host   string           `json:"host,omitempty"`
	After  []string         `json:"after,omitempty"` // of a stage: those it comes directly after
}

// Places are all places of the current definition, each before those in it.
func (s *State) Places() []Place {
	places := []Place{{Target: s.target}}
	if s.currentLayout() == nil {
		return places
	}
	for i := range s.layout.Stages {
		stage := &s.layout.Stages[i]
		places = append(places, Place{Target: stage.Target, Stage: stage.Name, After: stage.After})
		for g := range stage.Groups {
			group := &stage.Groups[g]
			places = append(places, Place{Target: group.Target, Stage: stage.Name, Group: group.Name})
			for h := range group.Hosts {
				places = append(places, Place{Target: group.Hosts[h].Target, Stage: stage.Name, Group: group.Name, Host: group.Hosts[h].Name})
			}
		}
	}
	return places
}

// Defines reports whether a definition is the current one.
func (s *State) Defines(d *definition.Definition) bool {
	if s.definition == nil {
		return false
	}
	other, err := json.Marshal(d)
	own, errOwn := json.Marshal(s.definition)
	return err == nil && errOwn == nil && bytes.Equal(own, other)
}
