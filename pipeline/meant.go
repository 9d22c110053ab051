package pipeline

import (
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/deployment"
)

// meant finds the deployment that a name means to a command: that of the revision which is
// under way, or came last, or the one whose id it is. A revision that is under way more than
// once, such as by itself while a stage is rolled back to it, names none of these.
func (s *State) meant(name string) (Registration, error) {
	return s.one(name, func(d *deployment.Deployment) bool { return d.Status == deployment.Running }, "is under way more than once")
}

// ended is what a name means to a command that goes on with what has ended otherwise than
// well. Of those that did a stage again, the last of each stage counts.
func (s *State) ended(name string) (Registration, error) {
	newest := map[deploylog.Target]*deployment.Deployment{}
	for _, d := range s.deployments {
		if d.Revision == name && d.Only() != "" {
			newest[d.Only()] = d
		}
	}
	such := func(d *deployment.Deployment) bool {
		return d.Status != deployment.Running && (d.Only() == "" || newest[d.Only()] == d)
	}
	for _, d := range s.deployments {
		if d.Revision == name && such(d) {
			return s.one(name, such, "may be tried again more than once")
		}
	}
	return s.meant(name)
}

// one finds the deployment of a revision that is such, or whose id the name is, or the last
// one of the revision.
func (s *State) one(name string, such func(*deployment.Deployment) bool, several string) (Registration, error) {
	var all []*deployment.Deployment
	for _, d := range s.deployments {
		if d.Revision == name && such(d) {
			all = append(all, d)
		}
	}
	switch len(all) {
	case 0:
		return s.last(name)
	case 1:
		return s.revisions[all[0].Order-1], nil
	}
	var which []string
	for _, d := range all {
		which = append(which, d.ID+" ("+d.Role()+")")
	}
	return Registration{}, refusal.New(AmbiguousName, "revision %s of pipeline %s is %w: it %s; give the deployment instead of the revision: %s", name, s.name, ErrAmbiguous, several, strings.Join(which, " or "))
}

// last is the registration of a revision that came last, or the one of a deployment.
func (s *State) last(name string) (Registration, error) {
	if err := s.isDefined(); err != nil {
		return Registration{}, err
	}
	for i := len(s.revisions) - 1; i >= 0; i-- {
		if s.revisions[i].Revision == name {
			return s.revisions[i], nil
		}
	}
	if i := s.indexOf(name); i >= 0 {
		return s.revisions[i], nil
	}
	var known []string
	for _, r := range s.revisions {
		if r.Rollback == nil && r.Redo == nil { // each name once
			known = append(known, r.Revision)
		}
	}
	return Registration{}, s.unknown(UnknownRevision, "revision", name, known)
}

// release is the registration with which a revision went into the pipeline, for what nothing
// else can be meant by: artifacts, approval, and what a definition brings.
func (s *State) release(name, to string) (Registration, error) {
	r, err := s.last(name)
	if err != nil {
		return r, err
	}
	if i, released := s.byRevision[name]; released {
		return s.revisions[i], nil
	}
	if d := (&deployment.Deployment{Rollback: r.Rollback, Redo: deployment.Redone{Info: r.Redo}}); d.Only() != "" {
		return r, refusal.New(NotWaiting, "deployment %s cannot %s: it is %s alone", name, to, d.Role())
	}
	return r, nil
}

// nameOf is what a person calls a deployment: its revision, or its id where that may mean
// another one.
func (s *State) nameOf(d *deployment.Deployment) string {
	if r, err := s.meant(d.Revision); err == nil && r.Deployment == d.ID {
		return d.Revision
	}
	return d.ID
}

// first is the registration of a revision whose deployment another one may repeat.
func (s *State) first(i int) int {
	of := i
	switch r := s.revisions[i]; {
	case r.Rollback != nil:
		of = s.indexOf(r.Rollback.Original)
	case r.Redo != nil:
		of = s.indexOf(r.Redo.Of)
	}
	if of < 0 || of >= i {
		return i
	}
	return s.first(of)
}
