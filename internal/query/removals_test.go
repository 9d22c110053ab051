package query

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// deployed is a pipeline whose stages are on hosts, with the texts that its revisions carry.
type deployed struct {
	*testing.T
	log   deploylog.Log
	state *pipeline.State
	kept  work.Texts
	ids   int
}

func newDeployed(t *testing.T) *deployed {
	return &deployed{T: t, log: logtest.NewMemory().Open(), state: pipeline.New("p"), kept: work.TextsIn(objects.In(t.TempDir(), nil))}
}

func (d *deployed) id() string {
	d.ids++
	return fmt.Sprint("id-", d.ids)
}

func (d *deployed) append(events []deploylog.Event, err error) {
	require.NoError(d, err)
	for _, e := range must.Get(d.log.Append(d.Context(), events...))(d) {
		d.state.Apply(e)
	}
}

func (d *deployed) do(c pipeline.Command) { d.append(d.state.Propose(c, time.Now())) }

// stages defines "NAME HOST…" with a manifest each, one after the other.
func (d *deployed) stages(all ...string) {
	of, members := &definition.Definition{Name: "p"}, map[string][]string{}
	for i, stage := range all {
		f := strings.Fields(stage)
		one := definition.Stage{Name: f[0], Deploy: &definition.Deploy{
			HostGroups: []definition.HostGroup{{Name: f[0], Hosts: "attribute:a == " + f[1]}}, Steps: []definition.HostStep{{Event: "host-deployed", Manifest: f[0] + ".yaml"}},
		}}
		if i > 0 {
			one.After = []string{of.Stages[i-1].Name}
		}
		of.Stages, members[f[0]] = append(of.Stages, one), f[1:]
	}
	d.do(pipeline.Define{Definition: of, ID: d.id()})
	d.do(pipeline.SetMembers{Members: members, ID: d.id()})
}

// release releases a revision whose manifests are each "STAGE RESOURCE…".
func (d *deployed) release(revision string, manifests ...string) {
	files := record.Files{}
	for _, m := range manifests {
		f, text := strings.Fields(m), "resources:\n"
		for _, name := range f[1:] {
			text += "  " + name + ": {}\n"
		}
		files[f[0]+".yaml"] = must.Get(d.kept.Keep([]byte(text)))(d)
	}
	d.do(pipeline.Release{Revision: revision, ID: d.id(), Carries: files})
}

// idle goes on until nothing can be done.
func (d *deployed) idle() {
	for done := true; done; {
		done = false
		for s := range d.state.Decide(time.Now(), pipeline.Can{}) {
			d.append(s.Completed(nil))
			done = true
			break
		}
	}
}

func (d *deployed) removals(whole bool) (Removals, error) {
	p := NewPipelines(d.log, time.Now)
	require.NoError(d, p.Follow(d.Context(), 0))
	return p.Removals(d.Context(), record.Target("p"), d.kept, whole)
}

// removes wants "STAGE BEFORE→REVISION: RESOURCES" to be foretold.
func (d *deployed) removes(want ...string) {
	d.Helper()
	found, err := d.removals(false)
	require.NoError(d, err)
	got := []string{}
	for _, r := range found.All {
		got = append(got, fmt.Sprintf("%s %s→%s: %s", r.Stage, r.Before, r.Revision, strings.Join(r.Resources, " ")))
	}
	assert.Equal(d, append([]string{}, want...), got)
}

func TestAStageRemovesWhatItsStepsDeclared(t *testing.T) {
	d := newDeployed(t)
	d.stages("beta b1", "prod h1 h2")
	d.release("1", "beta agent probe", "prod agent web")
	d.idle()
	d.release("2", "beta agent", "prod web probe")
	d.removes("beta 1→2: probe", "prod 1→2: agent")
	d.idle()
	d.removes()
	d.do(pipeline.Rollback{Stage: "prod", Revision: "1", ID: d.id()})
	d.removes("prod 2→1: probe")
}

func TestAStageLeavesWhatAnotherOneDeclaresOnTheSameHosts(t *testing.T) {
	d := newDeployed(t)
	d.stages("base h1", "prod h1 h2")
	d.release("1", "base conf", "prod agent web")
	d.idle()
	d.release("2", "base conf web", "prod conf")
	d.removes("prod 1→2: agent web") // web only from h2
	d.stages("base h1", "prod h1")
	d.removes("prod 1→2: agent")
}

func TestAStageRemovesWhatAFormerStageOfItsHostsDeclared(t *testing.T) {
	d := newDeployed(t)
	d.stages("base h1", "other h9", "prod h1")
	d.release("1", "base conf", "other far", "prod web")
	d.idle()
	d.stages("prod h1")
	d.release("2", "prod web")
	d.removes("prod 1→2: conf")
}

func TestRemovalsStopAtTheirBound(t *testing.T) {
	d := newDeployed(t)
	all, before, after := make([]string, 60), make([]string, 60), make([]string, 60)
	for i := range all {
		all[i], before[i], after[i] = fmt.Sprintf("s%d h%d", i, i), fmt.Sprintf("s%d a b", i), fmt.Sprintf("s%d a", i)
	}
	d.stages(all...)
	d.release("1", before...)
	d.idle()
	d.release("2", after...)
	found, err := d.removals(false)
	assert.True(t, err == nil && len(found.All) == 50 && found.More == 10, "%v: %d, and %d more", err, len(found.All), found.More)
	found, err = d.removals(true)
	assert.True(t, err == nil && len(found.All) == 60 && found.More == 0, "%v: %d, and %d more", err, len(found.All), found.More)
}

func TestRemovalsOfTextsThatAreNotKeptAreNotKnown(t *testing.T) {
	d := newDeployed(t)
	d.stages("beta b1", "prod h1")
	d.release("1", "beta a b", "prod web")
	d.idle()
	d.release("2", "beta a", "prod other")
	d.kept = work.TextsIn(objects.In(t.TempDir(), nil))
	found, err := d.removals(false)
	var unread *UnreadError
	require.ErrorAs(t, err, &unread)
	assert.ErrorContains(t, unread.Cause, "beta.yaml: ")
	assert.Equal(t, "deployster pipeline diff p 1 2 says why", err.Error())
	assert.Empty(t, found.All)
}
