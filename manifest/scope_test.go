package manifest_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/manifest"
)

// What nobody reads may wait for states that are not there yet: it is not evaluated.
func TestOnlyWhatIsReadOfModulesIsEvaluated(t *testing.T) {
	f := tree{
		"m.yaml": `
resources:
  host: {type: x}
  plain: {type: x, dependencies: {web: web, h: host}, config: {a: one, b: '{{ h.name }}'}}
  reader: {type: x, dependencies: {web: web}, config: {a: '{{ web.o }}'}}
  guess: {type: x, dependencies: {web: web}, config: {a: '{% include "any/" ~ part %}'}}
modules:
  web: {source: ./web, dependencies: {h: host}, vars: {p: '{{ h.state.id }}'}}
`,
		"web/module.yaml": `
variables: {p: {}, q: {default: '{{ p }}!'}, r: {default: fixed}}
resources:
  one: {type: x, config: {a: '{{ r }}'}}
  two: {type: x, config: {a: '{{ q }}'}}
outputs: {o: '{{ two.state.id }} of {{ q }}'}
`,
		"any/web": "{{ web.o }}",
	}
	m, err := f.load(map[string]any{"part": "web"})
	require.NoError(t, err)
	for name, want := range map[string]struct{ reads, needs, config string }{
		"plain":   {"[host]", "[host]", "map[a:one b:host]"},
		"web.one": {"[]", "[]", "map[a:fixed]"},
		"web.two": {"[host]", "[host]", "map[a:<host>!]"},
		"reader":  {"[host web.two]", "[host web.two]", "map[a:<web.two> of <host>!]"},
		"guess":   {"[host web.two]", "[]", "map[a:<web.two> of <host>!]"}, // any name may be in such a file
	} {
		read := map[string]bool{}
		r := m.Resource(name)
		got, err := r.Resolve(any(r.Config), manifest.Scope{Expressions: f.evaluator(), Variables: map[string]any{"part": "web"}, State: func(name string) any {
			read[name] = true
			return state(name)
		}})
		require.NoError(t, err, name)
		assert.Equal(t, want.config, fmt.Sprint(got), name)
		reads := fmt.Sprint(slices.Sorted(maps.Keys(read)))
		assert.Equal(t, want.reads, reads, name)
		if needs, err := r.Needs(any(r.Config), f.evaluator()); err != nil || fmt.Sprint(needs) != want.needs {
			t.Errorf("%s needs the states of %s (%v), want %s", name, needs, err, want.needs)
		}
	}
}

// A chain of modules, each of which reads the one before several times, is evaluated once.
func TestChainsOfModulesAreEvaluatedOnce(t *testing.T) {
	var b strings.Builder
	b.WriteString("resources:\n  host: {type: x}\n  last: {type: x, dependencies: {m: m40}, config: {a: '{{ m.a ~ m.b }}'}}\nmodules:\n  m0: {source: ./m, dependencies: {h: host}, vars: {p: '{{ h.state.id }}', q: ''}}\n")
	for i := 1; i <= 40; i++ {
		fmt.Fprintf(&b, "  m%d: {source: ./m, dependencies: {before: m%d}, vars: {p: '{{ before.a }}', q: '{{ before.b }}'}}\n", i, i-1)
	}
	f := tree{"m.yaml": b.String(), "m/module.yaml": "variables: {p: {}, q: {}}\noutputs: {a: '{{ p }}', b: '{{ [p, q] | min }}'}\n"}
	m, err := f.load(nil)
	require.NoError(t, err)
	last, read := m.Resource("last"), 0
	got, err := last.Resolve(any(last.Config), manifest.Scope{Expressions: f.evaluator(), State: func(name string) any { read++; return state(name) }})
	if err != nil || fmt.Sprint(got) != "map[a:<host>]" || read != 1 {
		t.Errorf("it is %v (%v) after reading %d states", got, err, read)
	}
	assert.Equal(t, []string{"host"}, m.Dependencies("last"))
	assert.Equal(t, 64, len(last.Hash()), "no hash")
}

func TestSecretsOfModulesAreHidden(t *testing.T) {
	f := tree{
		"m.yaml": `
resources:
  host: {type: x}
  reader: {type: x, dependencies: {web: web}, config: {a: '{{ web.o }}'}}
modules:
  web: {source: ./web, dependencies: {h: host}, vars: {known: k-word, late: 'l-word of {{ h.state.id }}', part: {open: o-word, key: p-word}}}
`,
		"web/module.yaml": `
variables:
  known: {writeOnly: true}
  late: {type: string, writeOnly: true, maxLength: 20}
  part: {type: object, properties: {key: {writeOnly: true}}}
  default: {writeOnly: true, default: d-word}
  reads: {writeOnly: true, default: '{{ late }} again'}
resources: {a: {type: x, config: {a: '{{ known }}'}}, b: {type: x, config: {a: '{{ reads }}'}}}
outputs: {o: '{{ late }}'}
`,
	}
	var hidden []any
	hide := func(value any) { hidden = append(hidden, value) }
	m, err := f.loadHiding(nil, hide)
	require.NoError(t, err)
	assert.Equal(t, "[k-word p-word d-word]", fmt.Sprint(hidden))
	for name, want := range map[string]string{"web.a": "[]", "web.b": "[l-word of <host> l-word of <host> again]", "reader": "[l-word of <host>]"} {
		hidden = nil
		r := m.Resource(name)
		if _, err := r.Resolve(any(r.Config), manifest.Scope{Expressions: f.evaluator(), State: state, Hide: hide}); err != nil || fmt.Sprint(hidden) != want {
			t.Errorf("%s hides %v (%v), want %s", name, hidden, err, want)
		}
	}
	hidden = nil
	long := func(string) any { return map[string]any{"state": map[string]any{"id": strings.Repeat("x", 20)}} }
	_, err = m.Resource("reader").Resolve("{{ web.o }}", manifest.Scope{Expressions: f.evaluator(), State: long, Hide: hide})
	var invalid *manifest.Error
	if !errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), "m.yaml:6:") || !strings.Contains(err.Error(), "of the variable late at web/module.yaml:4:3") || len(hidden) != 1 {
		t.Errorf("of a value that does not fit it says %v, with %v hidden", err, hidden)
	}
}

// A revision carries what may be included, by the directory of the module that includes it.
func TestWhatModulesMayInclude(t *testing.T) {
	f := tree{
		"m.yaml": `
resources:
  host: {type: x}
  reader: {type: x, dependencies: {web: web}, config: {a: '{{ web.o }}', b: '{% include ["x", "y"] %}'}}
modules: {web: {source: ./web, dependencies: {h: host}, vars: {p: '{% include "own/" ~ h.state.id %}'}}}
`,
		"web/module.yaml": `
variables: {p: {}}
resources: {a: {type: x, config: {a: '{{ p }}{% include "text" %}'}}}
outputs: {o: '{% include "conf/" ~ p %}'}
`,
		"web/text": "constant", "x": "x", "y": "y",
	}
	all, err := manifest.Includes(manifest.Source{Name: "m.yaml", Data: []byte(f["m.yaml"])}, f.evaluator())
	require.NoError(t, err)
	show := func(all manifest.Inclusions) string {
		return fmt.Sprint(all[""].Candidates, all[""].Directories, all["web"].Candidates, all["web"].Directories)
	}
	assert.Equal(t, "[x y] [own/] [] [conf/]", show(all))
	m, err := f.load(nil)
	require.NoError(t, err)
	for name, want := range map[string]string{"host": "[] [] [] []", "web.a": "[] [own/] [] []", "reader": "[x y] [own/] [] [conf/]"} {
		if all, err := m.Resource(name).Possible(f.evaluator()); err != nil || show(all) != want {
			t.Errorf("%s may include %s (%v), want %s", name, show(all), err, want)
		}
	}
}

func TestWhatIsInAModuleIsMadeOf(t *testing.T) {
	f := tree{
		"m.yaml":             "modules: {web: {source: ./web, for_each: '{{ all }}', vars: {p: '{{ one }}', q: '{{ two }}', r: '{{ each.value }}'}}}",
		"web/module.yaml":    "variables: {p: {}, q: {}, r: {}, d: {default: '{{ q }}'}}\nresources: {a: {type: x, config: {p: '{{ p }}', d: '{{ d }}', each: '{{ r }}', none: 1}}}\nmodules: {in: {source: ./in, vars: {v: '{{ d }}'}}}",
		"web/in/module.yaml": "variables: {v: {writeOnly: true}}\nresources: {b: {type: x, config: {v: '{{ v }}'}}}",
	}
	outline, err := manifest.Outline(manifest.Source{Name: "m.yaml", Data: []byte(f["m.yaml"])}, f.evaluator())
	require.NoError(t, err)
	for _, tc := range []struct{ resource, key, want string }{
		{"web.a", "p", "[{{ one }}]"}, {"web.a", "d", "[{{ two }}]"}, {"web.a", "each", "[[{{ each.value }}] {{ all }}]"}, {"web.a", "none", "[]"}, {"web.in.b", "v", "[{{ two }}]"},
	} {
		r := outline.Resource(tc.resource)
		assert.Equal(t, tc.want, fmt.Sprint(r.Made(expression.OverAll(nil), tc.key)), "%v, %v", tc.resource, tc.key)
	}
	require.Len(t, outline.Secret, 1)
	assert.Equal(t, "[{{ two }}]", fmt.Sprint(outline.Secret[0].Written))
}

func TestSeveralFilesDeclareVariablesTogether(t *testing.T) {
	const rest = "resources: {}\n"
	m := mustLoad(t, nil, "variables: {b: {type: string, description: The b.}, a: {default: [1]}}\n"+rest, "variables: {c: {writeOnly: true}}\n")
	var got []string
	for _, d := range m.Variables {
		written, has := d.Default()
		got = append(got, fmt.Sprintf("%s %s %q %t %t %v", d.Name, d.Position, d.Description, d.Secret, has, written))
	}
	const want = `a a.yaml:1:53 "" false true [1];b a.yaml:1:13 "The b." false false <nil>;c b.yaml:1:13 "" true false <nil>`
	assert.Equal(t, want, strings.Join(got, ";"))
	_, err := load(t, nil, "variables: {a: {}}\n"+rest, "variables: {a: {}}\n")
	assert.EqualError(t, err, `b.yaml:1:13: variables.a: the variable "a" is already declared at a.yaml:1:13`)
}

func TestSecretsMakeNoNames(t *testing.T) {
	sources := []manifest.Source{{Name: "m.yaml", Data: []byte("resources: {a: {type: x, for_each: ['{{ a }}', '{{ b }}']}}")}}
	_, err := manifest.Load(sources, manifest.Options{
		Variables: map[string]any{"a": "open", "b": "hush"}, Evaluator: expression.New(t.TempDir()), Secret: func(text string) bool { return text == "hush" },
	})
	assert.EqualError(t, err, "m.yaml:1:36: resources.a.for_each: a key would be a secret, or a part of one, and keys are names, which are shown: make them of something else")
}

// What was made of a declaration is subject to it also where it comes to nothing any more.
func TestWhatComesToNothingIsDeclaredAllTheSame(t *testing.T) {
	for _, tc := range []struct{ of, text, name, want string }{
		{"no instances", "a: {type: x, for_each: [], prevent_destroy: true}", "a[old]", "a.yaml:1:40"},
		{"an instance that is gone", "a: {type: x, for_each: [b], prevent_destroy: true}", "a[old]", "a.yaml:1:41"},
		{"all are off", "a: {type: x, for_each: [b], when: false, prevent_destroy: true}", "a[b]", "a.yaml:1:54"},
		{"off", "a: {type: x, when: false, prevent_destroy: true}", "a", "a.yaml:1:39"},
		{"may go", "a: {type: x, for_each: []}", "a[old]", "declared"},
		{"was one", "a: {type: x, for_each: []}", "a", "declared"},
		{"was many", "a: {type: x, when: false}", "a[old]", ""},
		{"another", "a: {type: x, when: false}", "b", ""},
	} {
		m := mustLoad(t, nil, "resources: {"+tc.text+", z: {type: x}}")
		selected, err := m.Select([]string{"z"})
		require.NoError(t, err)
		for _, m := range []*manifest.Manifest{m, selected} {
			got := ""
			if kin := m.Kin(tc.name); m == selected && tc.of == "an instance that is gone" {
				continue
			} else if kin != nil && kin.PreventDestroy {
				got = kin.PreventedAt().String()
			} else if kin != nil {
				got = "declared"
			}
			assert.Equal(t, tc.want, got, "%s: %s is %q, want %q", tc.of, tc.name, got, tc.want)
		}
	}
}
