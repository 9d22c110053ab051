package pipeline

import (
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

// A host group moves to a later stage and back while a revision is in it. In between it counted
// as being past the first stage, and a newer revision came to hosts there.
func TestARevisionThatTheDefinitionBringsBackBehindANewerOneFails(t *testing.T) {
	two := func(first, second []string) *definition.Definition {
		d := &definition.Definition{Name: "p", Stages: []definition.Stage{deployTo("first", nil, "", deployed), deployTo("second", []string{"first"}, "", deployed)}}
		for i, groups := range [][]string{first, second} {
			for _, g := range groups {
				d.Stages[i].Deploy.HostGroups = append(d.Stages[i].Deploy.HostGroups, definition.HostGroup{Name: g, Hosts: "attribute:group == " + g})
			}
		}
		return d
	}
	for name, back := range map[string]*definition.Definition{
		"the group that moved":    two([]string{"east", "west"}, nil),
		"the group that it did":   two(nil, []string{"west", "east"}),
		"both groups, and others": two([]string{"west"}, []string{"east"}),
	} {
		t.Run(name, func(t *testing.T) {
			w := newTale(t, two([]string{"east", "west"}, nil), map[string][]string{"east": {"e"}, "west": {"w"}})
			carries := record.Files{deployed + ".yaml": "1"}
			w.do(Release{Revision: "1", ID: "one", Carries: carries})
			for _, at := range []struct{ target, event string }{
				{"stage/p/first", record.StageStarted}, {"host-group/p/east", record.GroupStarted}, {"host-group/p/west", record.GroupStarted},
				{"host/p/east/e", record.HostStarted}, {"host/p/east/e", deployed}, {"host/p/east/e", record.HostFinished}, {"host-group/p/east", record.GroupFinished},
			} {
				w.complete("1", deploylog.Target(at.target), at.event)
			}
			w.do(Define{Definition: two([]string{"east"}, []string{"west"}), ID: w.id(), Carries: carries})
			w.do(Release{Revision: "2", ID: "two", Carries: carries})
			w.complete("2", "stage/p/first", record.StageStarted)
			w.complete("2", "host-group/p/east", record.GroupStarted)
			w.complete("2", "host/p/east/e", record.HostStarted)
			w.complete("2", "host/p/east/e", deployed)
			w.do(Define{Definition: back, ID: w.id(), Carries: carries})
			w.idle()
			if r := w.state.revisions[0]; r.Status != deployment.Failed {
				t.Errorf("revision 1 is %s: %s", r.Status, r.Cause)
			}
			if r := w.state.revisions[1]; r.Status != deployment.Finished {
				t.Errorf("revision 2 is %s: %s", r.Status, r.Cause)
			}
		})
	}
}
