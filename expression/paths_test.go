package expression_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/expression"
)

func TestPathsAreWhatATemplateReadsBelowNames(t *testing.T) {
	workspace := t.TempDir()
	write(t, workspace, "part.txt", "{{ from.part }}")
	e := expression.New(workspace)
	for src, want := range map[string][]string{
		"text":                                         nil,
		"{{ other.a }}":                                nil,
		"{{ from }}":                                   nil,
		"{{ from.a }}":                                 {"from.a"},
		"{{ from['a-b'] }} {{ from[\"c\"].d }}":        {"from['a-b']", "from.c.d"},
		"{{ from.a.b ~ from.c | upper }}":              {"from.a.b", "from.c"},
		"{{ from[key].a }}":                            nil,
		"{{ from.a[from.b].c }}":                       {"from.a", "from.b"},
		"{{ from.a[0].b }}":                            {"from.a"},
		"{{ from.a.items() }}":                         {"from.a"},
		"{{ from.get('a') }} {{ from.b }}":             nil,
		"{{ from.a.get('x', from.b.c) }}":              {"from.a", "from.b.c"},
		"{{ from.a.upper().b }}":                       {"from.a"},
		"{{ from.a | default('x') }}":                  nil,
		"{{ from.a.b | default('x') }} {{ from.a.c }}": {"from.a.c"},
		"{% if from.a is defined %}{{ from.a.b }}{{ from.a }}{% endif %}": nil,
		"{% if 'a' in from.b %}{{ from.b.a }}{% endif %}":                 {"from.b"},
		"{% if 'a' in from %}{{ from.a }}{% endif %}":                     nil,
		"{% set from = {} %}{{ from.a }}":                                 nil,
		"{% for x in from.list %}{{ x.a }}{% endfor %}":                   {"from.list"},
		"{% include 'part.txt' %}":                                        {"from.part"},
		"{{ (from.a).b }}":                                                {"from.a.b"},
		"{{ (from).a }}":                                                  {"from.a"},
		"{{ [from.a, {'k': from.b}] }}":                                   {"from.a", "from.b"},
	} {
		paths, err := e.Paths(src, "from")
		var got []string
		for _, p := range paths {
			got = append(got, p.String())
		}
		assert.True(t, err == nil && slices.Equal(got, want), "%q reads %q (%v), want %q", src, got, err, want)
	}
}
