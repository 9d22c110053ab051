package view_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/picture"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/reason"
)

// Revisions, targets and errors of a log were written by others.
func TestTheStatusOfAPipelineHasNoControlCharacters(t *testing.T) {
	var out strings.Builder
	err := view.Pipeline(&out, query.PipelineStatus{Name: "p\x1b[2Jp", Waiting: []query.Alike[reason.Reason]{{First: reason.Reason{
		Revision: "1\u202e\x1b[2J", Target: "stage/p/\x1b[1ma", Code: reason.HasFailed, Cause: "x\x1b[2Jx\u202e",
	}}}}, view.PlanOptions{})
	assert.True(t, err == nil && !strings.ContainsAny(out.String(), "\x1b\u202e"), "%v, %q", err, out.String())
}

// nine are hosts on which something failed.
var nine = []string{"antworker001", "antworker002", "antworker003", "h4", "h5", "h6", "h7", "h8", "h9"}

// drawn is the picture of a pipeline with one stage and its host group, and what is at the group.
func drawn(group query.TargetRow, p query.PipelineStatus) picture.Graph {
	group.Place = pipeline.Place{Target: "host-group/p/eu", Stage: "beta", Group: "eu"}
	p.Name, p.Rows = "p", []query.TargetRow{{Place: pipeline.Place{Target: "pipeline/p"}}, {Place: pipeline.Place{Target: "stage/p/beta", Stage: "beta"}}, group}
	return view.PipelinePicture(p)
}

// What failed comes first in a box, each thing on a line of its own, and no name is cut.
func TestBoxesHaveALineForEachThing(t *testing.T) {
	g := drawn(query.TargetRow{
		LatestRevisions: query.LatestRevisions{Deployed: "299-of-the-release-branch", Failed: "300-of-the-release-branch", DeployedEvent: 1, FailedEvent: 2},
		Hosts:           9, FailedHosts: nine,
		Revisions: []pipeline.Row{
			{Revision: "302", Progress: pipeline.IsWaiting}, {Revision: "300-of-the-release-branch", Progress: pipeline.HasFailure, Hosts: 9, Failed: 9},
			{Revision: "301", Progress: pipeline.IsRunning}, {Revision: "303", Progress: pipeline.IsRunning}, {Revision: "304", Progress: pipeline.IsRunning},
		},
		Failing: map[string][]string{"300-of-the-release-branch": nine},
	}, query.PipelineStatus{})
	want := []string{
		"eu (9 hosts)",
		"✘ 300-of-the-release-branch",
		"● 300-of-the-release-branch failed (0/9, 9 failing: antworker001, antworker002 and 7 more)",
		"● 302 waits",
		"● 301",
		"● 2 more",
		"✔ 299-of-the-release-branch (0/9, 9 failing: antworker001, antworker002 and 7 more)",
	}
	n := g.Nodes[0]
	assert.True(t, slices.Equal(n.Lines, want) && n.State == picture.Failed, "%s:\n%s", n.State, strings.Join(n.Lines, "\n"))
}

func TestWhatIsShutIsDrawn(t *testing.T) {
	for name, c := range map[string]struct {
		status query.PipelineStatus
		title  string
		line   string
	}{
		"nothing":               {query.PipelineStatus{}, "p", ""},
		"the pipeline":          {query.PipelineStatus{Pauses: []pipeline.PauseInfo{{Target: "pipeline/p", By: "ann", Reason: "freeze"}}}, "p, paused by ann: freeze", ""},
		"a stage":               {query.PipelineStatus{Pauses: []pipeline.PauseInfo{{Target: "stage/p/beta", By: "ann"}}}, "p", "paused by ann"},
		"a group":               {query.PipelineStatus{Shut: []reason.Reason{{Code: reason.NoHosts, By: "host-group/p/eu"}}}, "p", "holds: its query selects no host"},
		"a group that keeps":    {query.PipelineStatus{Shut: []reason.Reason{{Code: reason.AwaitsConfirmation, By: "host-group/p/eu"}}}, "p", "holds: too many hosts would leave"},
		"a stage after failure": {query.PipelineStatus{Shut: []reason.Reason{{Code: reason.AwaitsFix, By: "stage/p/beta", Holder: "41"}}}, "p", "stopped: revision 41 failed"},
	} {
		t.Run(name, func(t *testing.T) {
			g := drawn(query.TargetRow{Hosts: 1}, c.status)
			state := picture.State("")
			if c.line != "" {
				state = picture.Waiting
			}
			if n := g.Nodes[0]; g.Title != c.title || c.line != "" != slices.Contains(n.Lines, c.line) || n.State != state {
				t.Errorf("%q, %s, %q", g.Title, n.State, n.Lines)
			}
		})
	}
}
