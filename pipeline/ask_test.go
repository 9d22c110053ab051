package pipeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/acceptance"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

// A release that brings more than it may waits until somebody else accepts exactly that.
func TestAReleaseThatIsAskedForIsAccepted(t *testing.T) {
	d := production(deployed)
	w := newTale(t, d, map[string][]string{"all": {"h"}})
	mine, theirs := files("mine"), files("theirs")
	w.do(Define{Definition: d, Files: mine, ID: w.id()})
	ask := func(revision string) AskedFor {
		w.do(Ask{Release: Release{Revision: revision, ID: w.id(), Carries: theirs, By: "token ci", Bound: true}, Excess: []string{"plug root: asks for path /; allowed: nothing"}})
		all := w.state.Asked(noon)
		require.NotEmpty(t, all)
		return all[len(all)-1]
	}
	a := ask("1")
	assert.Empty(t, w.doable(), "it is released")
	w.says(w.refused(Ask{Release: Release{Revision: "1", ID: w.id(), Carries: mine}}, acceptance.AlreadyAsked), "asked for, by token ci (event ")
	says := w.state.Explain(w.state.target)
	require.Len(t, says, 1)
	assert.Contains(t, says[0].Message(), "asked for by token ci, and not released: plug root: asks for path /; allowed: nothing; expires at ")

	w.says(w.refused(Accept{Revision: "1", By: "lead"}, CarriesOther), "deployster pipeline accept p 1 --content "+a.Content)
	w.says(w.refused(Accept{Revision: "1", Content: "sha256:0", By: "lead"}, CarriesOther), "and not with sha256:0")
	w.says(w.refused(Accept{Revision: "1", Content: a.Content, By: "token ci"}, acceptance.AskedByYou), "who does not accept it")
	w.says(w.refused(Accept{Revision: "2", Content: a.Content, By: "lead"}, acceptance.NothingAsked), "unknown request for revision 2 of pipeline p; those that wait are 1")
	_, err := w.state.Propose(Accept{Revision: "1", Content: a.Content, By: "lead"}, noon.Add(acceptance.Lasts))
	assert.ErrorContains(t, err, "has expired")

	w.do(Accept{Revision: "1", Content: a.Content, ID: w.id(), By: "lead"})
	assert.Empty(t, w.state.Asked(noon))
	started := record.Read(w.log[len(w.log)-1].Data)
	assert.Equal(t, []any{"token ci", &acceptance.Accepted{By: "lead", Asked: a.ID, Content: a.Content}, theirs}, []any{started.By, started.Accepted, started.Carries})
	assert.Equal(t, mine, w.state.Own(), "what was accepted once is the definition's own")
	w.do(ReceiveArtifact{Revision: "1", Kind: "x86", Ref: "x"})
	w.toWork()
	assert.Nil(t, w.bounds(), "what was accepted is bound")
	w.refused(Accept{Revision: "1", Content: a.Content, By: "lead"}, acceptance.NothingAsked) // nor is it accepted again

	// What was asked for for another definition is not accepted, and what was declined is over.
	b := ask("2")
	changed := *d
	changed.Supersede = true
	w.do(Define{Definition: &changed, Files: mine, Carries: mine, ID: w.id()})
	w.says(w.refused(Accept{Revision: "2", Content: b.Content, By: "lead"}, CarriesOther), "was defined anew since revision 2 was asked for")
	w.do(Decline{Revision: "2", By: "token ci"})
	w.refused(Decline{Revision: "2", By: "token ci"}, acceptance.NothingAsked)
	w.do(Release{Revision: "3", ID: w.id(), Carries: theirs})
	w.refused(Ask{Release: Release{Revision: "3", Carries: mine}}, AlreadyReleased)

	// Somebody who writes to the log alters nothing of what is accepted.
	c := ask("4")
	w.state.asked[0].Payload.Carries = files("evil")
	w.says(w.refused(Accept{Revision: "4", Content: c.Content, By: "lead"}, CarriesOther), "is not what it says")
	for i := range acceptance.Most - 1 {
		ask("more" + string(rune('a'+i)))
	}
	w.says(w.refused(Ask{Release: Release{Revision: "5", ID: w.id(), Carries: theirs}}, acceptance.TooManyAsked), "have some accepted or declined first")
	assert.Empty(t, w.state.Asked(noon.Add(8*24*time.Hour)))
	assert.Equal(t, deployment.Running, w.state.Registrations()[0].Status)
}
