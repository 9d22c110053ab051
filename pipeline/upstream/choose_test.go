package upstream_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// released is a revision with those that it was released with: "lib 5, base 2, tools 1".
func released(text string) upstream.Input {
	var all []upstream.Release
	for part := range strings.SplitSeq(text, ", ") {
		pipeline, revision, _ := strings.Cut(part, " ")
		revision, again, _ := strings.Cut(revision, "!") // of the pipeline that had the name before
		all = append(all, upstream.Release{Pipeline: pipeline, Revision: revision, Deployment: pipeline + revision + again})
	}
	return upstream.Input{Release: all[0], Inputs: all[1:]}
}

func need(candidates ...string) (n upstream.Need) {
	for _, c := range candidates {
		n.Candidates = append(n.Candidates, released(c))
	}
	n.Pipeline = n.Candidates[0].Pipeline
	return n
}

func TestChoose(t *testing.T) {
	tests := map[string]struct {
		needs []upstream.Need
		want  string
	}{
		"one":                         {[]upstream.Need{need("config 3", "config 2")}, "config 3"},
		"nothing in common":           {[]upstream.Need{need("config 3, x 1"), need("lib 5, base 2"), need("docs 1")}, "config 3; lib 5; docs 1"},
		"the same":                    {[]upstream.Need{need("a 3, base 2"), need("b 5, base 2")}, "a 3; b 5"},
		"a diamond":                   {[]upstream.Need{need("a 3, base 2", "a 2, base 1"), need("b 5, base 1", "b 4, base 1")}, "a 2 (newer a 3: a 3 was released with base 2, and b 5 with base 1); b 5"},
		"the first chooses first":     {[]upstream.Need{need("a 3, base 2", "a 2, base 1"), need("b 5, base 1", "b 4, base 2")}, "a 3; b 4 (newer b 5: b 5 was released with base 1, and a 3 with base 2)"},
		"one leads to the other":      {[]upstream.Need{need("config 4", "config 3"), need("lib 5, config 3")}, "config 3 (newer config 4: lib 5 was released with config 3 and not with config 4); lib 5"},
		"the other leads to it":       {[]upstream.Need{need("lib 5, config 3", "lib 4, config 2"), need("config 4", "config 2")}, "lib 4 (newer lib 5: lib 5 was released with config 3 and not with config 2); config 2 (newer config 4: lib 4 was released with config 2 and not with config 4)"},
		"of itself":                   {[]upstream.Need{need("a 3, app 2"), need("b 5, app 1")}, "a 3; b 5"},
		"none":                        {[]upstream.Need{need("docs 1"), need("a 3, base 2"), need("b 5, base 1")}, "a and b do not go together: a 3 was released with base 2, and b 5 with base 1"},
		"none of a name":              {[]upstream.Need{need("a 3, base 2"), need("b 5, base 2!again")}, "a and b do not go together: a 3 was released with base 2 (deployment base2), and b 5 with base 2 (deployment base2again)"},
		"each two, and not all three": {[]upstream.Need{need("a 2, x 1, y 1", "a 1, x 2, y 2"), need("b 2, x 1, z 1", "b 1, x 2, z 2"), need("c 2, y 1, z 2", "c 1, y 2, z 1")}, "a, b, c do not go together, although any two of them do: for example, b 2 was released with z 1, and c 2 with z 2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			chosen, err := upstream.Choose("app", test.needs)
			if err != nil {
				assert.Equal(t, test.want, err.Error(), "got %v\nwant %s", err, test.want)
				return
			}
			var parts []string
			for _, c := range chosen {
				text := c.String()
				if c.Newer.Revision != "" {
					text += fmt.Sprintf(" (newer %s: %s)", c.Newer, c.Why)
				}
				parts = append(parts, text)
			}
			assert.Equal(t, test.want, strings.Join(parts, "; "))
		})
	}
}

// leads is where a revision leads, without what is said of the pipeline that is released.
func leads(in upstream.Input) map[string]string {
	all := map[string]string{}
	for _, r := range append(slices.Clone(in.Inputs), in.Release) {
		if r.Pipeline != "app" {
			all[r.Pipeline] = r.Deployment
		}
	}
	return all
}

func agree(all []upstream.Input) bool {
	one := map[string]string{}
	for _, in := range all {
		for pipeline, deployment := range leads(in) {
			if other, known := one[pipeline]; known && other != deployment {
				return false
			}
			one[pipeline] = deployment
		}
	}
	return true
}

func newest(needs []upstream.Need, before []upstream.Input) []upstream.Input {
	if len(needs) == 0 {
		if agree(before) {
			return slices.Clone(before)
		}
		return nil
	}
	for _, c := range needs[0].Candidates {
		if found := newest(needs[1:], append(slices.Clip(before), c)); found != nil {
			return found
		}
	}
	return nil
}

func TestChooseFindsTheNewestCombinationThatAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var needs []upstream.Need
		count := rapid.IntRange(1, 4).Draw(t, "needs")
		for i := range count {
			n := upstream.Need{Pipeline: fmt.Sprintf("p%d", i)}
			for revision := rapid.IntRange(1, 5).Draw(t, "candidates"); revision > 0; revision-- {
				text := fmt.Sprintf("%s %d", n.Pipeline, revision)
				for j := range count { // of other needs
					if j != i && rapid.IntRange(0, 9).Draw(t, "leads to a need") == 0 {
						text += fmt.Sprintf(", p%d %d", j, rapid.IntRange(1, 3).Draw(t, "revision"))
					}
				}
				for _, base := range []string{"x", "y", "z", "app"} {
					if rapid.IntRange(0, 2).Draw(t, "leads") > 0 {
						text += fmt.Sprintf(", %s %d", base, rapid.IntRange(1, 3).Draw(t, "revision"))
					}
				}
				n.Candidates = append(n.Candidates, released(text))
			}
			needs = append(needs, n)
		}
		want := newest(needs, nil)
		chosen, err := upstream.Choose("app", needs)
		if want == nil {
			impossible(t, needs, err)
			return
		}
		require.NoError(t, err, "%v agree, and there is", want)
		for i, c := range chosen {
			require.Equal(t, want[i], c.Input, "of need %d it chose", i)
			first := needs[i].Candidates[0]
			if older := c.Release != first.Release; older != (c.Newer == first.Release) || older != (c.Why.Pipeline != "") {
				t.Fatalf("%s is chosen, %s is the newest, and %+v is why", c, first, c.Why)
			}
			if split := c.Why; split.Pipeline != "" && (split.A != first.Release || split.OfA.Deployment == split.OfB.Deployment || split.OfA.Pipeline != split.Pipeline || split.OfB.Pipeline != split.Pipeline) {
				t.Fatalf("%+v is no reason", split)
			}
		}
	})
}

func impossible(t *rapid.T, needs []upstream.Need, err error) {
	var disagree *upstream.DisagreementError
	require.True(t, errors.As(err, &disagree), "nothing agrees, and there is %v", err)
	var some []upstream.Need
	for _, n := range needs {
		if slices.Contains(disagree.Pipelines, n.Pipeline) {
			some = append(some, n)
		}
	}
	found := newest(some, nil)
	require.True(t, len(some) >= 2 && found == nil && disagree.Split.Pipeline != "", "%v, and %v agree", err, found)
}

func TestChooseFindsARevisionInLongHistories(t *testing.T) {
	const revisions = 10_000
	var needs []upstream.Need
	for i := range 8 {
		n := upstream.Need{Pipeline: fmt.Sprintf("p%d", i)}
		for revision := revisions; revision > 0; revision-- {
			n.Candidates = append(n.Candidates, released(fmt.Sprintf("p%d %d, base %d, own%d %d", i, revision, revision-i, i, revision)))
		}
		needs = append(needs, n)
	}
	chosen := must.Get(upstream.Choose("app", needs))(t)
	assert.True(t, chosen[0].Revision == "9993" && chosen[7].Revision == "10000", "chose %s and %s", chosen[0], chosen[7])
}

// Where too much would have to be tried it says so.
func TestChooseGivesUp(t *testing.T) {
	var needs []upstream.Need
	const pipelines, colours = 12, 10 // more pipelines than colours, each two of which differ
	for i := range pipelines {
		n := upstream.Need{Pipeline: fmt.Sprintf("p%d", i)}
		for c := range colours {
			text := fmt.Sprintf("p%d %d", i, c)
			for j := range pipelines { // a pipeline for every two and colour, to which both lead if they have it
				low, high := min(i, j), max(i, j)
				if i != j {
					text += fmt.Sprintf(", pair%d-%d-%d %d", low, high, c, i)
				}
			}
			n.Candidates = append(n.Candidates, released(text))
		}
		needs = append(needs, n)
	}
	assert.ErrorIs(t, must.Fail(upstream.Choose("app", needs)), upstream.ErrTooMany)
}

// shelf is a pipeline whose revisions others may take.
type shelf struct {
	definition *definition.Definition
	candidates []upstream.Input
}

func (s *shelf) Definition() *definition.Definition { return s.definition }

func (s *shelf) Defined() error {
	if s.definition == nil {
		return errors.New("it was deleted")
	}
	return nil
}

func (s *shelf) Stage(name string) (string, error) {
	if name != "prod" {
		return "", fmt.Errorf("unknown stage %q", name)
	}
	return name, nil
}

func (s *shelf) Candidates(definition.Needed) ([]upstream.Input, error) {
	if len(s.candidates) == 0 {
		return nil, errors.New("none has passed prod")
	}
	return s.candidates, nil
}

func (s *shelf) Candidate(n definition.Needed, revision string) (upstream.Input, error) {
	for _, c := range s.candidates {
		if c.Revision == revision {
			return c, nil
		}
	}
	return upstream.Input{}, fmt.Errorf("%s has not passed prod", revision)
}

// shelves are pipelines by name.
type shelves map[string]*shelf

func (s shelves) find(name string) (upstream.Pipeline, error) {
	if p := s[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no such pipeline: %q", name)
}

// taker is a pipeline with a stage for each of its inputs, which have the form PIPELINE or PIPELINE/STAGE.
func taker(t *testing.T, name string, inputs ...string) *definition.Definition {
	text := "pipeline: " + name + "\nstages:\n"
	for i, in := range inputs {
		pipeline, stage, passed := strings.Cut(in, "/")
		if passed {
			pipeline += ", passed: " + stage
		}
		text += fmt.Sprintf("  - {name: s%d, run: {manifest: m}, inputs: [{pipeline: %s}]}\n", i, pipeline)
	}
	if len(inputs) == 0 {
		text += "  - {name: prod, run: {manifest: m}}\n"
	}
	return must.Get(definition.Parse(name+".yaml", []byte(text), nil))(t)
}

func TestTake(t *testing.T) {
	all := shelves{
		"config": {candidates: []upstream.Input{released("config 4"), released("config 3")}},
		"lib":    {candidates: []upstream.Input{released("lib 6, config 4"), released("lib 5, config 3")}},
		"tools":  {candidates: []upstream.Input{released("tools 2, base 2")}},
		"docs":   {candidates: []upstream.Input{released("docs 1, base 1"), released("docs 0, base 2")}},
		"old":    {candidates: []upstream.Input{released("old 1, config 1")}},
		"new":    {},
	}
	tests := map[string]struct {
		inputs string
		named  map[string]string
		want   string
	}{
		"the newest":                 {"config lib", nil, "config 4, lib 6"},
		"named":                      {"config lib", map[string]string{"config": "3"}, "config 3, lib 5"},
		"both named":                 {"config lib", map[string]string{"config": "3", "lib": "5"}, "config 3, lib 5"},
		"named, and not agreeing":    {"config lib", map[string]string{"config": "3", "lib": "6"}, "the inputs of pipeline app: config and lib do not go together: lib 6 was released with config 4 and not with config 3; name others, or none: then it takes config 4, lib 6"},
		"not agreeing with a name":   {"tools docs", map[string]string{"docs": "1"}, "the inputs of pipeline app: tools and docs do not go together: tools 2 was released with base 2, and docs 1 with base 1; name others, or none: then it takes tools 2, docs 0"},
		"never agreeing":             {"config old", nil, "the inputs of pipeline app: config and old do not go together: old 1 was released with config 1 and not with config 4; release a revision of old with config 4, and let it pass"},
		"never, whatever is named":   {"lib old", map[string]string{"lib": "5"}, "the inputs of pipeline app: lib and old do not go together: lib 5 was released with config 3, and old 1 with config 1; release a revision of lib with config 1 or of old with config 3, and let it pass"},
		"none yet, and none at all":  {"new nothing config", nil, "input new: none has passed prod\ninput nothing: no such pipeline: \"nothing\""},
		"a name that has not passed": {"config", map[string]string{"config": "5"}, "input config: 5 has not passed prod"},
		"a name of no input":         {"config", map[string]string{"confg": "3"}, `unknown input "confg" of pipeline app: did you mean config?`},
		"another of no input":        {"config lib", map[string]string{"x": "3"}, `unknown input "x" of pipeline app: it takes config, lib`},
		"where there are no inputs":  {"", map[string]string{"x": "3"}, `unknown input "x": no stage of pipeline app has inputs`},
		"no inputs":                  {"", nil, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			chosen, err := upstream.Take(taker(t, "app", strings.Fields(test.inputs)...), test.named, all.find)
			var names []string
			for _, c := range chosen {
				names = append(names, c.String())
			}
			got := strings.Join(names, ", ")
			if err != nil {
				got = err.Error()
			}
			assert.Equal(t, test.want, got)
			assert.Equal(t, errors.Is(err, upstream.ErrUnknown), strings.HasPrefix(got, "unknown input"), "that a name is of nothing is not told by %v", err)
		})
	}
}

func TestCheck(t *testing.T) {
	all := shelves{
		"config": {definition: taker(t, "config")}, "lib": {definition: taker(t, "lib", "config")}, "tools": {definition: taker(t, "tools", "lib", "app")},
		"more": {definition: taker(t, "more", "tools/prod")}, "gone": {}, "lost": {definition: taker(t, "lost", "nothing")},
	}
	tests := map[string]struct{ inputs, want string }{
		"fine":         {"config/prod lib lost", ""},
		"unknown":      {"config nothing", `app.yaml:4:56: no such pipeline: "nothing"`},
		"deleted":      {"gone", "app.yaml:3:56: it was deleted"},
		"no stage":     {"config/prd config/prod", `app.yaml:3:72: unknown stage "prd"`},
		"in a circle":  {"tools", "app.yaml:3:56: pipelines would take revisions of each other: app takes tools, tools takes app; leave one of these inputs out"},
		"a longer one": {"config more", "app.yaml:4:56: pipelines would take revisions of each other: app takes more, more takes tools, tools takes app; leave one of these inputs out"},
		"all of it":    {"gone/prd tools/prd", "app.yaml:3:56: it was deleted\napp.yaml:4:71: unknown stage \"prd\"\napp.yaml:4:56: pipelines would take revisions of each other: app takes tools, tools takes app; leave one of these inputs out"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := upstream.Check(taker(t, "app", strings.Fields(test.inputs)...), all.find); err != nil {
				got = err.Error()
			}
			assert.Equal(t, test.want, got)
		})
	}
	stored := &definition.Definition{Name: "app", Stages: []definition.Stage{{Name: "prod", Inputs: []definition.Input{{Pipeline: "nothing"}}}}}
	assert.EqualError(t, upstream.Check(stored, all.find), `input nothing: no such pipeline: "nothing"`, "without a place got")
}

func TestMissing(t *testing.T) {
	config := released("config 3")
	config.Passed = []string{"eu/prod"}
	lib := released("lib 5")
	lib.Finished = true
	tests := map[string]struct{ inputs, want string }{
		"nothing needed":  {"", ""},
		"met":             {"config/prod config/eu/prod lib", ""},
		"another":         {"config/prod docs", "no revision of pipeline docs"},
		"another stage":   {"config/beta", "config 3, which need not have passed stage beta"},
		"not finished":    {"config", "config 3, which need not have finished"},
		"finished or not": {"lib/prod", "lib 5, which need not have passed stage prod"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, upstream.Missing(taker(t, "app", strings.Fields(test.inputs)...), slices.Clone([]upstream.Input{config, lib})))
		})
	}
}

func TestClosureIsAllButTheReleasedPipelineItself(t *testing.T) {
	var names []string
	for _, r := range upstream.Closure("app", []upstream.Input{released("lib 5, base 2, app 6"), released("config 3, base 2, alpha 1")}) {
		names = append(names, r.String())
	}
	assert.Equal(t, "alpha 1, base 2, config 3, lib 5", strings.Join(names, ", "))
	all := upstream.Closure("app", nil)
	assert.True(t, len(all) == 0, "without inputs got %v", all)
}

func TestVariablesAreByPipelineAndKind(t *testing.T) {
	config := released("config 3")
	config.Artifacts = map[string]string{"x86": "config-3.tar"}
	assert.Equal(t, map[string]any{
		"config": map[string]any{"revision": "3", "artifacts": map[string]any{"x86": "config-3.tar"}},
		"lib":    map[string]any{"revision": "5", "artifacts": map[string]any{}},
	}, upstream.Variables([]upstream.Input{config, released("lib 5")}))
	assert.Nil(t, upstream.Variables(nil), "without inputs got")
}

// What is recorded is read again, and keeps its form.
func TestInputsAreRecorded(t *testing.T) {
	in := released("lib 5, base 2")
	in.Passed, in.Finished, in.Artifacts = []string{"beta", "prod"}, true, map[string]string{"x86": "lib.tar"}
	const want = `{"pipeline":"lib","revision":"5","deployment":"lib5","passed":["beta","prod"],"finished":true,"artifacts":{"x86":"lib.tar"},"inputs":[{"pipeline":"base","revision":"2","deployment":"base2"}]}`
	data, err := json.Marshal(in)
	assert.True(t, err == nil && string(data) == want, "recorded is %s, %v", data, err)
	var again upstream.Input
	err = json.Unmarshal(data, &again)
	assert.True(t, err == nil && reflect.DeepEqual(again, in), "read is %+v, %v", again, err)
	assert.Equal(t, "passed beta and prod, and finished", in.Had(), "it had")
}
