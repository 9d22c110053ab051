package proposal_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	groups "github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/proposal"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/record"
)

func TestWhatIsSentIsWhatArrives(t *testing.T) {
	says := proposal.Says{By: "token ci", ID: "01A", Group: "g1"}
	for _, c := range []struct {
		kind       string
		sent, want any
	}{
		{identity.Pipelines, pipeline.Skip{Revision: "42", By: "me", Reason: "why"}, pipeline.Skip{Revision: "42", By: "token ci", Reason: "why"}},
		{identity.Pipelines, pipeline.Release{Revision: "42", Carries: record.Files{"a": "b"}, Fix: true, ID: "x", By: "me"}, pipeline.Release{Revision: "42", Carries: record.Files{"a": "b"}, Fix: true, ID: "01A", By: "token ci"}},
		{identity.Pipelines, pipeline.Confirm{Group: "prod", ID: "x", By: "me"}, pipeline.Confirm{Group: "prod", ID: "01A", By: "token ci"}},
		{identity.Pipelines, pipeline.Repair{Stage: "prod", Hosts: []string{"a"}}, pipeline.Repair{Stage: "prod", Hosts: []string{"a"}, ID: "01A", By: "token ci"}},
		{identity.Environments, environment.Pause{By: "me"}, environment.Pause{By: "token ci"}},
		{identity.Environments, environment.Deploy{Revision: 2, Hosts: []string{"forged"}, Inventory: "forged", By: "me", Reason: "why"}, environment.Deploy{Revision: 2, By: "token ci", Reason: "why"}},
		{identity.Environments, environment.Restart{Only: []string{"a"}, Hosts: []string{"forged"}}, environment.Restart{Only: []string{"a"}, By: "token ci"}},
		{identity.Environments, environment.CordonHosts{Hosts: []string{"a"}, Drain: true}, environment.CordonHosts{Hosts: []string{"a"}, Drain: true, By: "token ci"}},
		{identity.Environments, environment.ConfirmHosts{Hosts: []string{"forged"}, Known: func(string) bool { return true }}, environment.ConfirmHosts{By: "token ci"}},
		{identity.Environments, environment.AdoptFrom{From: "a", Revision: 1, Same: []string{"forged"}}, environment.AdoptFrom{From: "a", Revision: 1, By: "token ci"}},
		{proposal.Promotions, promotion.Approve{Stage: "prod", Revision: "42", ID: "x", By: "me"}, promotion.Approve{Stage: "prod", Revision: "42", ID: "01A", By: "token ci"}},
		{proposal.Promotions, promotion.StopLine{Reason: "why", ID: "x", By: "me"}, promotion.StopLine{Reason: "why", ID: "01A", By: "token ci"}},
		{proposal.Builds, build.Submit{
			Triggered: groups.Triggered{Name: "base", By: "me", MaxLost: 3, Carries: groups.Carries{"a": "b"}, Pipeline: &groups.From{Pipeline: "forged"}},
			Jobs:      []groups.JobSpec{{Package: "a"}, {Package: "b", Waits: groups.Numbers{1}}},
		}, build.Submit{
			Triggered: groups.Triggered{Name: "base", By: "token ci", MaxLost: 3, Carries: groups.Carries{"a": "b"}},
			Jobs:      []groups.JobSpec{{Package: "a"}, {Package: "b", Waits: groups.Numbers{1}}},
		}},
		{proposal.Builds, build.Retry{Group: "x", FailedOnly: true, Step: "forged"}, build.Retry{Group: "g1", FailedOnly: true, By: "token ci"}},
	} {
		verb, body, err := proposal.Encode(c.kind, c.sent)
		require.NoError(t, err)
		assert.Equal(t, c.want, must.Get(verb.Decode(body, says))(t))
	}
}

func TestABodyThatIsNoneIsRefused(t *testing.T) {
	verb, _, err := proposal.Encode(identity.Pipelines, pipeline.Skip{})
	require.NoError(t, err)
	for body, want := range map[string]string{
		`{"revision":"1","by":"root"}`: `unknown field: the member "by"`,
		`{"revision":1}`:               `no command skip: the member "revision" must be a string, and not a number`,
		`[]`:                           `no command skip: the body must be an object, and not a list`,
		`{} {}`:                        "more behind it",
		`{`:                            "ends too early",
		`{"revision":"a\nb"}`:          "one line",
		`{"reason":"` + strings.Repeat("a", 1001) + `"}`:       "at most 1000",
		`{"revision":"1","signature":{"identity":"somebody"}}`: `unknown field: the member "signature"`,
		`{"revision":"1","revision":"2"}`:                      `the member "revision" is there twice`,
		`{"revision":"1","Revision":"2"}`:                      `unknown field: the member "Revision" is written "revision"`,
		`{"REVISION":"1"}`:                                     `unknown field: the member "REVISION" is written "revision"`,
		`{"revision":"\ud800"}`:                                `the member "revision" has half of a surrogate pair, \ud800`,
		`{"revision":"\udc00\ud800"}`:                          `half of a surrogate pair`,
		`{"\ud800":"1"}`:                                       `half of a surrogate pair`,
		"{\"revision\":\"\xff\"}":                              "no UTF-8",
		strings.Repeat("[", 1<<20):                             "nested more than 200 deep",
	} {
		_, err := verb.Decode([]byte(body), proposal.Says{})
		assert.ErrorContains(t, err, want, "%.60s", body)
	}
	command, err := verb.Decode([]byte(`{"revision":"\ud83d\ude00 \\ud800"}`), proposal.Says{})
	assert.Equal(t, pipeline.Skip{Revision: `😀 \ud800`}, command, "%v", err)

	submit, _, err := proposal.Encode(proposal.Builds, build.Submit{})
	require.NoError(t, err)
	for body, want := range map[string]string{
		`{"jobs":[{"package":"a"},{"Package":"b"}]}`: `unknown field: the member "jobs[1].Package" is written "package"`,
		`{"jobs":[{"package":"a","package":"b"}]}`:   `the member "jobs[0].package" is there twice`,
		`{"carries":{"a":"b","a":"c"}}`:              `the member "carries.a" is there twice`,
		`{"jobs":{}}`:                                `the member "jobs" must be a list, and not an object`,
		`{"max_lost":1.5}`:                           `the member "max_lost" must be a whole number, and not the number 1.5`,
	} {
		_, err := submit.Decode([]byte(body), proposal.Says{})
		assert.ErrorContains(t, err, want, "%.60s", body)
	}
}

func TestWhatCannotBeSentSaysWhereItIsDone(t *testing.T) {
	_, _, err := proposal.Encode(identity.Environments, environment.SetHosts{})
	assert.ErrorIs(t, err, proposal.ErrUnsent)
	assert.ErrorContains(t, err, "without --server")
}

func FuzzDecode(f *testing.F) {
	f.Add(0, []byte(`{"revision":"1"}`))
	f.Fuzz(func(t *testing.T, n int, body []byte) {
		all := proposal.Verbs()
		verb := all[(n%len(all)+len(all))%len(all)]
		command, err := verb.Decode(body, proposal.Says{By: "ada"})
		if err != nil {
			return
		}
		by := reflect.ValueOf(command).FieldByName("By")
		assert.Equal(t, "ada", by.String(), "%s is by %q", body, by)
		_, err = json.Marshal(command)
		assert.NoError(t, err)
	})
}
