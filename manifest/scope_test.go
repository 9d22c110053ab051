package manifest_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

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
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil || fmt.Sprint(got) != want.config {
			t.Errorf("%s is configured as %v (%v), want %s", name, got, err, want.config)
		}
		if reads := fmt.Sprint(slices.Sorted(maps.Keys(read))); reads != want.reads {
			t.Errorf("%s reads the states of %s, want %s", name, reads, want.reads)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	last, read := m.Resource("last"), 0
	got, err := last.Resolve(any(last.Config), manifest.Scope{Expressions: f.evaluator(), State: func(name string) any { read++; return state(name) }})
	if err != nil || fmt.Sprint(got) != "map[a:<host>]" || read != 1 {
		t.Errorf("it is %v (%v) after reading %d states", got, err, read)
	}
	if after := m.Dependencies("last"); !slices.Equal(after, []string{"host"}) {
		t.Errorf("it waits for %q; modules without resources wait for what they are given", after)
	}
	if len(last.Hash()) != 64 {
		t.Error("no hash")
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(hidden); got != "[k-word p-word d-word]" {
		t.Errorf("hidden from the beginning is %s", got)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	show := func(all manifest.Inclusions) string {
		return fmt.Sprint(all[""].Candidates, all[""].Directories, all["web"].Candidates, all["web"].Directories)
	}
	if got := show(all); got != "[x y] [own/] [] [conf/]" {
		t.Errorf("the manifest may include %s", got)
	}
	m, err := f.load(nil)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ resource, key, want string }{
		{"web.a", "p", "[{{ one }}]"}, {"web.a", "d", "[{{ two }}]"}, {"web.a", "each", "[[{{ each.value }}] {{ all }}]"}, {"web.a", "none", "[]"}, {"web.in.b", "v", "[{{ two }}]"},
	} {
		r := outline.Resource(tc.resource)
		if got := fmt.Sprint(r.Made(expression.OverAll(nil), tc.key)); got != tc.want {
			t.Errorf("%s.%s is made of %s, want %s", tc.resource, tc.key, got, tc.want)
		}
	}
	if len(outline.Secret) != 1 || fmt.Sprint(outline.Secret[0].Written) != "[{{ two }}]" {
		t.Errorf("what is secret is made of %v", outline.Secret)
	}
}
