package provenance_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/provenance"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	require.NoError(tb, err)
}

func digest(c string) string { return "sha256:" + strings.Repeat(c, 64) }

func job() provenance.Job {
	return provenance.Job{
		Artifact: digest("a"), Group: "base-7", Number: 12, Attempt: 2, Package: "gcc", Version: "9.1 <&>",
		Recipe: map[string]any{"image": "toolchain:1", "args": []string{"make"}},
		Worker: "antworker001", Engine: "docker 28.1", Platform: "linux/amd64", Inputs: strings.Repeat("1", 64),
		Image: provenance.Material{Name: "toolchain:1", Digest: digest("b")}, Sources: digest("c"),
		Uses:   []provenance.Material{{Name: "make", Digest: digest("d")}, {Name: "glibc", Digest: digest("e")}},
		Commit: strings.Repeat("f", 40), Metadata: map[string]string{"tests": "12", "a": "b"}, Deployster: "1.2.3",
		Started: time.Date(2026, 3, 1, 12, 0, 0, 999, time.FixedZone("", 3600)), Finished: time.Date(2026, 3, 1, 12, 5, 0, 0, time.FixedZone("", 3600)),
	}
}

func statement(tb testing.TB, j provenance.Job) provenance.Statement {
	tb.Helper()
	s, err := j.Statement()
	must(tb, err)
	return s
}

const want = `{"_type":"https://in-toto.io/Statement/v1","predicate":{"buildDefinition":{` +
	`"buildType":"https://github.com/deployster-go/deployster/build/v1",` +
	`"externalParameters":{"group":"base-7","job":12,"package":"gcc","recipe":{"args":["make"],"image":"toolchain:1"},"version":"9.1 <&>"},` +
	`"internalParameters":{"engine":"docker 28.1","inputs":"1111111111111111111111111111111111111111111111111111111111111111","platform":"linux/amd64","worker":"antworker001","workspaceCommit":"ffffffffffffffffffffffffffffffffffffffff"},` +
	`"resolvedDependencies":[` +
	`{"digest":{"sha256":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"},"name":"image toolchain:1"},` +
	`{"digest":{"sha256":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"name":"sources"},` +
	`{"digest":{"sha256":"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"},"name":"package make"},` +
	`{"digest":{"sha256":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"},"name":"package glibc"}]},` +
	`"runDetails":{"builder":{"id":"https://github.com/deployster-go/deployster","version":{"deployster":"1.2.3"}},` +
	`"byproducts":[{"content":"eyJhIjoiYiIsInRlc3RzIjoiMTIifQ==","mediaType":"application/json","name":"metadata"}],` +
	`"metadata":{"finishedOn":"2026-03-01T11:05:00Z","invocationId":"base-7/12/2","startedOn":"2026-03-01T11:00:00Z"}}},` +
	`"predicateType":"https://slsa.dev/provenance/v1",` +
	`"subject":[{"digest":{"sha256":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"name":"gcc"}]}`

func TestAStatementSaysHowAnArtifactCameToBe(t *testing.T) {
	text, err := statement(t, job()).JSON()
	must(t, err)
	assert.Equal(t, want, string(text), "it says\n%s\nwant\n%s", text, want)
	again, err := provenance.Decode(text)
	must(t, err)
	same, err := again.JSON()
	assert.True(t, err == nil && bytes.Equal(same, text), "read and written again it is\n%s, %v", same, err)
}

// A commit of Git is what the sources were only where somebody has compared them.
func TestACommitIsADependency(t *testing.T) {
	j := job()
	j.Source = provenance.Source{Repository: "https://example.org/base.git", Commit: strings.Repeat("f", 40)}
	text, err := statement(t, j).JSON()
	must(t, err)
	commit := `"name":"sources"},{"digest":{"gitCommit":"` + strings.Repeat("f", 40) + `"},"name":"commit","uri":"git+https://example.org/base.git"},`
	assert.Equal(t, strings.Replace(want, `"name":"sources"},`, commit, 1), string(text), "it says\n%s", text)
	j.Source.Repository = ""
	if text, err := statement(t, j).JSON(); err != nil || strings.Contains(string(text), `"uri"`) || !strings.Contains(string(text), `"gitCommit"`) {
		t.Errorf("without a repository it says\n%s, %v", text, err)
	}
	j.Sources = ""
	if text, err := statement(t, j).JSON(); err != nil || strings.Contains(string(text), `"gitCommit"`) {
		t.Errorf("without sources it says\n%s, %v", text, err)
	}
	for _, wrong := range []string{"main", strings.Repeat("F", 40), strings.Repeat("f", 64)[:63]} {
		j := job()
		j.Source.Commit = wrong
		assert.ErrorContains(t, errOf(j.Statement()), "is no commit of Git", "%q", wrong)
	}
}

// The least that is known makes a statement with all that the forms require.
func TestALittleIsEnough(t *testing.T) {
	text, err := statement(t, provenance.Job{Artifact: digest("a"), Group: "base-7", Number: 1, Attempt: 1, Package: "make"}).JSON()
	must(t, err)
	var s struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []struct{ Digest map[string]string }
		Predicate     struct {
			BuildDefinition struct {
				BuildType          string
				ExternalParameters map[string]any
			}
			RunDetails struct{ Builder struct{ ID string } }
		}
	}
	must(t, json.Unmarshal(text, &s))
	p := s.Predicate
	if s.Type == "" || s.PredicateType == "" || len(s.Subject) != 1 || s.Subject[0].Digest["sha256"] == "" || p.BuildDefinition.BuildType == "" || len(p.BuildDefinition.ExternalParameters) == 0 || p.RunDetails.Builder.ID == "" {
		t.Errorf("it says %s", text)
	}
	for _, empty := range []string{"null", `""`, "0001-01-01", "{}"} {
		assert.False(t, strings.Contains(string(text), empty), "it says %s of what is not known: %s", empty, text)
	}
}

func TestWhatIsNoDigestIsNoPartOfAStatement(t *testing.T) {
	for what, change := range map[string]func(*provenance.Job){
		"its artifact":  func(j *provenance.Job) { j.Artifact = "" },
		`image "x"`:     func(j *provenance.Job) { j.Image = provenance.Material{Name: "x", Digest: "sha512:00"} },
		`sources ""`:    func(j *provenance.Job) { j.Sources = digest("x") },
		`package "gcc"`: func(j *provenance.Job) { j.Uses[0] = provenance.Material{Name: "gcc", Digest: digest("A")} },
		"its recipe":    func(j *provenance.Job) { j.Recipe = func() {} },
	} {
		j := job()
		j.Uses = slices.Clone(j.Uses)
		change(&j)
		s, err := j.Statement()
		assert.True(t, err != nil && strings.Contains(err.Error(), "job 12 of base-7: "+what), "%s: %v, %v", what, s, err)
	}
}

func TestWhatIsNoProvenanceIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		``:     "unexpected end",
		`null`: "_type must be",
		`{}`:   "_type must be https://in-toto.io/Statement/v1\npredicateType must be https://slsa.dev/provenance/v1\nthere is no subject\nbuildType is missing\nbuilder.id is missing",
		strings.Replace(want, `"subject":[{"digest":{"sha256"`, `"subject":[{"digests":{"sha256"`, 1):      "subject 0 has no digest",
		strings.Replace(want, `{"digest":{"sha256":"eeee`, `{"x":{"sha256":"eeee`, 1):                      "resolved dependency 3 has neither",
		strings.Replace(want, `"https://slsa.dev/provenance/v1"`, `"https://slsa.dev/provenance/v0.2"`, 1): "predicateType must be",
		strings.Repeat(" ", 17<<20): "at most",
	} {
		s, err := provenance.Decode([]byte(text))
		assert.True(t, err != nil && strings.Contains(err.Error(), want) && s.Type == "", "%.100s: %v, %v", text, s, err)
	}
}

// What is read can be written, and that is the same then.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(want))
	f.Add([]byte(`{"_type":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := provenance.Decode(text)
		if err != nil {
			return
		}
		once, err := s.JSON()
		require.NoError(t, err, "%q is read, and not written", text)
		again, err := provenance.Decode(once)
		require.NoError(t, err, "%q is written, and not read", once)
		twice, err := again.JSON()
		require.True(t, err == nil && bytes.Equal(once, twice), "%q and then %q, %v", once, twice, err)
	})
}
