package upstream_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

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

// taker is a pipeline with a stage for each of its inputs, which have the form PIPELINE or
// PIPELINE/STAGE.
func taker(t *testing.T, name string, inputs ...string) *definition.Definition {
	t.Helper()
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
	d, err := definition.Parse(name+".yaml", []byte(text), nil)
	require.NoError(t, err)
	return d
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
	err := upstream.Check(stored, all.find)
	assert.EqualError(t, err, `input nothing: no such pipeline: "nothing"`, "without a place got")
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
