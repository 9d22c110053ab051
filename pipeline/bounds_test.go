package pipeline

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

// bounds are those of the next work that applies a manifest.
func (w *tale) bounds() *deployment.Bounds {
	w.Helper()
	for step := range w.state.Decide(noon, Can{}) {
		if step.Manifest != "" {
			return step.Bounds
		}
	}
	require.Fail(w, "nothing is applied")
	return nil
}

// toWork goes on until a manifest is to be applied.
func (w *tale) toWork() {
	w.Helper()
	for {
		for step := range w.state.Decide(noon, Can{}) {
			if step.Manifest != "" {
				return
			}
			break
		}
		_, ok := w.step()
		require.True(w, ok, "nothing is applied")
	}
}

func (w *tale) wantBounds(own record.Files, rules *allow.Rules, after string) {
	w.Helper()
	b := w.bounds()
	require.NotNil(w, b, "after %s it may bring everything", after)
	assert.Equal(w, own, b.Own, after)
	assert.Equal(w, rules, b.Allow, after)
}

// Who released a revision counts whatever is done with it, and what is allowed is what the present definition says.
func TestARevisionStaysBound(t *testing.T) {
	d := production(deployed)
	w := newTale(t, d, map[string][]string{"all": {"h"}})
	mine := files("mine")
	w.do(Define{Definition: d, Files: mine, ID: w.id()})
	assert.Equal(t, mine, w.state.Own())
	release := func(revision string, bound bool, carries record.Files) {
		w.do(Release{Revision: revision, ID: w.id(), Carries: carries, Bound: bound})
		w.do(ReceiveArtifact{Revision: revision, Kind: "x86", Ref: "x", Bound: false})
	}
	release("1", true, mine)
	w.toWork()
	w.wantBounds(mine, nil, "a release")

	// What the definition allows is that of now.
	rules := &allow.Rules{Types: []string{"a"}}
	changed := *d
	changed.Allow = rules
	w.do(Define{Definition: &changed, Files: mine, ID: w.id(), Carries: mine})
	w.wantBounds(mine, rules, "a change")
	w.do(Define{Definition: d, Files: mine, ID: w.id(), Carries: mine})
	w.wantBounds(mine, nil, "a change back")

	// Another try has no other bounds, and neither has what is done again.
	w.fails[string(onHost("h"))+" "+deployed] = "disk full"
	w.idle()
	clear(w.fails)
	w.do(Retry{Revision: "1"})
	w.toWork()
	w.wantBounds(mine, nil, "a retry")
	w.idle()
	theirs := files("theirs")
	release("2", false, theirs)
	w.toWork()
	assert.Nil(t, w.bounds(), "who may bring everything is bound")
	assert.Equal(t, theirs, w.state.Own(), "what they released is not the definition's own")
	w.idle()
	w.do(Rollback{Stage: "prod", Revision: "1", ID: w.id()})
	w.toWork()
	w.wantBounds(mine, nil, "a rollback")
	w.idle()
	w.do(ResumePipeline{Stage: "prod", ID: w.id()})
	w.do(Rerun{Stage: "announce", Revision: "2", ID: w.id()})
	w.toWork()
	assert.Nil(t, w.bounds(), "who may bring everything is bound")
	w.idle()

	// An artifact of somebody who may not fills a revision of somebody who may.
	w.do(Release{Revision: "3", ID: w.id(), Carries: theirs})
	w.do(ReceiveArtifact{Revision: "3", Kind: "x86", Ref: "x", Bound: true})
	w.toWork()
	w.wantBounds(theirs, nil, "an artifact")
	assert.False(t, w.bounds().Revision, "its name is not believed")
}

// A definition of somebody who may not bring everything binds what it brings to revisions under way.
func TestADefinitionBindsWhatItBrings(t *testing.T) {
	d := production(deployed)
	w := newTale(t, d, map[string][]string{"all": {"h"}})
	mine := files("mine")
	w.do(Define{Definition: d, Files: mine, ID: w.id()})
	w.do(Release{Revision: "1", ID: w.id(), Carries: mine})
	w.do(ReceiveArtifact{Revision: "1", Kind: "x86", Ref: "x"})
	changed := *d
	changed.Stages = append([]definition.Stage{}, d.Stages...)
	changed.Stages[2].StopOnFailure = new(bool)
	w.do(Define{Definition: &changed, Bound: true, Files: files("evil"), Carries: files("evil"), Adopt: []string{"1"}, ID: w.id()})
	assert.Equal(t, mine, w.state.Own())
	w.toWork()
	w.wantBounds(mine, nil, "a definition")
}

// What a definition of such a one leaves as it was is not bound: neither what was released or accepted before, nor
// what is done of it again.
func TestADefinitionBindsNothingElse(t *testing.T) {
	d := production(deployed)
	w := newTale(t, d, map[string][]string{"all": {"h"}})
	mine, theirs := files("mine"), files("theirs")
	w.do(Define{Definition: d, Files: mine, ID: w.id()})
	w.do(Release{Revision: "1", ID: w.id(), Carries: theirs})
	w.do(ReceiveArtifact{Revision: "1", Kind: "x86", Ref: "x"})
	changed := *d
	changed.Stages = append([]definition.Stage{}, d.Stages...)
	changed.Stages[2].StopOnFailure = new(bool)
	w.do(Define{Definition: &changed, Bound: true, Carries: mine, ID: w.id()})
	w.toWork()
	assert.Nil(t, w.bounds(), "a release is bound by a definition that brings it nothing")
	w.idle()
	w.do(Rerun{Stage: "announce", Revision: "1", ID: w.id()})
	w.toWork()
	assert.Nil(t, w.bounds(), "what is done again is bound by a definition that brings it nothing")
}
