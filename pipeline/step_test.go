package pipeline

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

func TestReferencesThatNoLogTakesAreRefusedAsMissingOnesAre(t *testing.T) {
	s := step.Step{Deployment: "d", Target: "stage/p/build", Event: record.StageApplied, Attempt: 1, Stage: "build", Manifest: "b.yaml", Artifacts: []string{"x86"}}
	for _, c := range []struct{ name, ref, want string }{
		{"one that is as long as may be", strings.Repeat("x", 4096), ""},
		{"an empty one", "", ""},
		{"one that is longer", strings.Repeat("x", 4097), "artifact x86 that manifest b.yaml of stage build made: its reference is 4097 bytes long, at most 4096 are allowed"},
		{"one with a line break", "a\nb", "its reference holds a control character at byte 1"},
		{"one that moves the cursor", "ab\x1b[2J", "its reference holds a control character at byte 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			events, err := s.Completed(map[string]string{"x86": c.ref})
			if c.want == "" && (err != nil || len(events) != 2) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || events != nil) {
				t.Errorf("it says %v, with %d events", err, len(events))
			}
		})
	}
}

// Work that the caller cannot begin is not yielded; what needs no work is.
func TestDecideLeavesOutWorkThatCannotBegin(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.release("v1", "x86", "aarch64", "raspbian")
	idle := Can{Work: func(step.Step) bool { return false }}
	for steps := slices.Collect(w.state.Decide(noon, idle)); len(steps) > 0; steps = slices.Collect(w.state.Decide(noon, idle)) {
		for _, s := range steps {
			require.False(t, s.Work(), "%+v is yielded", s)
			events, err := s.Completed(nil)
			require.NoError(t, err)
			w.append(events...)
		}
	}
	all := slices.Collect(w.state.Decide(noon, Can{}))
	assert.True(t, len(all) != 0, "nothing waits for work")
}

func TestTheNameOfAPipelineIsInAllOfItsTargets(t *testing.T) {
	for target, want := range map[deploylog.Target]string{
		"pipeline/p": "p", "stage/p/s": "p", "host-group/p/g": "p", "host/p/g/h": "p",
		"run/p": "", "resource/p": "", "action/p/create": "", "pipeline/": "", "stage": "",
	} {
		got, ok := record.NameOf(target)
		assert.True(t, got == want && ok == (want != ""), "%s is of %q, %v", target, got, ok)
	}
}
