package pipeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/step"
)

// tale is a pipeline in a test, told event by event.
type tale struct {
	*testing.T
	state *State
	log   []deploylog.Event
	fails map[string]string // "TARGET EVENT" → cause
}

func newTale(t *testing.T, d *definition.Definition, members map[string][]string) *tale {
	t.Helper()
	w := &tale{T: t, state: New(d.Name), fails: map[string]string{}}
	w.do(Define{Definition: d, ID: w.id()})
	w.do(SetMembers{Members: members, ID: w.id()})
	return w
}

func (w *tale) id() string { return fmt.Sprintf("id-%d", len(w.log)) }

func (w *tale) append(events ...deploylog.Event) {
	w.Helper()
	for _, e := range events {
		require.NoError(w, e.Validate())
		e.Seq = int64(len(w.log) + 1)
		w.log = append(w.log, e)
		w.state.Apply(e)
		problem := w.state.drift()
		require.True(w, problem == "", "after event %d, %s of %s: %s", e.Seq, e.Name, e.Target, problem)
	}
}

func (w *tale) do(c Command) {
	w.Helper()
	events, err := w.state.Propose(c, noon)
	require.NoError(w, err)
	w.append(events...)
}

func (w *tale) refused(c Command, code refusal.Code) error {
	w.Helper()
	events, err := w.state.Propose(c, noon)
	var refused *refusal.Error
	require.ErrorAs(w, err, &refused, "%#v gave %v and %v, and should be refused", c, events, err)
	assert.True(w, refused.Code == code, "refused as %s (%s), not %s", refused.Code, err, code)
	return err
}

// says wants a sentence that is asserted here and nowhere else.
func (w *tale) says(err error, want string) {
	w.Helper()
	assert.Contains(w, err.Error(), want, "it says\n  %s\nand not\n  %s", err, want)
}

// release registers a revision, with all artifacts.
func (w *tale) release(revision string, kinds ...string) {
	w.Helper()
	w.do(Release{Revision: revision, ID: w.id()})
	for _, kind := range kinds {
		w.do(ReceiveArtifact{Revision: revision, Kind: kind, Ref: kind + "-" + revision})
	}
}

// step does the first thing that can be done.
func (w *tale) step() (step.Step, bool) {
	w.Helper()
	for s := range w.state.Decide(noon, Can{}) {
		if cause, bad := w.fails[string(s.Target)+" "+s.Event]; bad {
			w.append(s.Failed(cause, ""))
			return s, true
		}
		events, err := s.Completed(map[string]string{"x86": "x", "aarch64": "a", "raspbian": "r"})
		require.NoError(w, err)
		w.append(events...)
		return s, true
	}
	return step.Step{}, false
}

// until goes on until something has happened.
func (w *tale) until(revision string, t deploylog.Target, event string) {
	w.Helper()
	for !w.happened(revision, t, event) {
		_, ok := w.step()
		require.True(w, ok, "%s of %s never happens: %v", event, t, texts(w.state.Explain(w.state.target)))
	}
}

// idle goes on until nothing can be done.
func (w *tale) idle() {
	w.Helper()
	for range 10_000 {
		if _, ok := w.step(); !ok {
			return
		}
	}
	w.Fatal("it never ends")
}

func (w *tale) happened(revision string, t deploylog.Target, event string) bool {
	return w.seq(revision, t, event) > 0
}

func (w *tale) seq(revision string, t deploylog.Target, event string) int64 {
	for _, e := range w.log {
		if e.Revision == revision && e.Target == t && e.Name == event {
			return e.Seq
		}
	}
	return 0
}

// transcript is what happened to a revision, nested as in the seed.
func (w *tale) transcript(revision string) string {
	var b strings.Builder
	for _, e := range w.log {
		if e.Revision != revision {
			continue
		}
		marker := e.Name == e.Target.Started() || e.Name == e.Target.Succeeded() || e.Name == e.Target.Failed()
		depth := map[string]int{"pipeline": 0, "stage": 1, "host-group": 2, "host": 3}[e.Target.Kind()]
		if !marker {
			depth++
		}
		line := strings.Repeat("  ", depth) + e.Name
		if _, rest, _ := strings.Cut(string(e.Target), "/"); marker {
			if e.Target.Kind() == "host" {
				rest = rest[strings.LastIndexByte(rest, '/')+1:]
			}
			line += " " + rest
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// story is the log, numbered.
func (w *tale) story() (lines []string) {
	for _, e := range w.log {
		lines = append(lines, fmt.Sprintf("%d %s %s %s", e.Seq, e.Revision, e.Target, e.Name))
	}
	return lines
}

func texts(reasons []reason.Reason) (lines []string) {
	for _, r := range reasons {
		lines = append(lines, fmt.Sprintf("%s %s %s: %s", r.Revision, r.Target, r.Event, short(r)))
	}
	return lines
}

func deployTo(stage string, after []string, group string, events ...string) definition.Stage {
	s := definition.Stage{Name: stage, After: after, Deploy: &definition.Deploy{}}
	if group != "" {
		s.Deploy.HostGroups = []definition.HostGroup{{Name: group, Hosts: "attribute:group == " + group}}
	}
	for _, event := range events {
		s.Deploy.Steps = append(s.Deploy.Steps, definition.HostStep{Event: event, Manifest: event + ".yaml"})
	}
	return s
}

// antGateway is the example of the seed, with the steps that its hosts have.
func antGateway(steps ...string) *definition.Definition {
	return &definition.Definition{Name: "ant-gateway", Stages: []definition.Stage{
		{Name: "build", Build: &definition.Build{Artifacts: []string{"x86", "aarch64", "raspbian"}}},
		deployTo("beta", []string{"build"}, "ant-gateway/beta", steps...),
		deployTo("prod", []string{"beta"}, "ant-gateway/prod", steps...),
	}}
}

var antHosts = map[string][]string{"ant-gateway/beta": {"antworker002"}, "ant-gateway/prod": {"antworker001"}}

func newAntGateway(t *testing.T, steps ...string) *tale {
	t.Helper()
	return newTale(t, antGateway(steps...), antHosts)
}

const (
	beta     = deploylog.Target("stage/ant-gateway/beta")
	prod     = deploylog.Target("stage/ant-gateway/prod")
	onBeta   = deploylog.Target("host/ant-gateway/beta/antworker002")
	onProd   = deploylog.Target("host/ant-gateway/prod/antworker001")
	copied   = "host-artifact-replicated"
	deployed = "host-deployed"
	tested   = "host-tested"
)
