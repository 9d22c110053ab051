package manifest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
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
	m := must.Get(f.load(map[string]any{"part": "web"}))(t)
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
		assert.Equal(t, want.reads, fmt.Sprint(slices.Sorted(maps.Keys(read))), name)
		if needs, err := r.Needs(any(r.Config), f.evaluator()); err != nil || fmt.Sprint(needs) != want.needs {
			t.Errorf("%s needs the states of %s (%v), want %s", name, needs, err, want.needs)
		}
	}
}

func TestChainsOfModulesAreEvaluatedOnce(t *testing.T) {
	var b strings.Builder
	b.WriteString("resources:\n  host: {type: x}\n  last: {type: x, dependencies: {m: m40}, config: {a: '{{ m.a ~ m.b }}'}}\nmodules:\n  m0: {source: ./m, dependencies: {h: host}, vars: {p: '{{ h.state.id }}', q: ''}}\n")
	for i := 1; i <= 40; i++ {
		fmt.Fprintf(&b, "  m%d: {source: ./m, dependencies: {before: m%d}, vars: {p: '{{ before.a }}', q: '{{ before.b }}'}}\n", i, i-1)
	}
	f := tree{"m.yaml": b.String(), "m/module.yaml": "variables: {p: {}, q: {}}\noutputs: {a: '{{ p }}', b: '{{ [p, q] | min }}'}\n"}
	m := must.Get(f.load(nil))(t)
	last, read := m.Resource("last"), 0
	got, err := last.Resolve(any(last.Config), manifest.Scope{Expressions: f.evaluator(), State: func(name string) any { read++; return state(name) }})
	assert.True(t, err == nil && fmt.Sprint(got) == "map[a:<host>]" && read == 1, "it is %v (%v) after reading %d states", got, err, read)
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
	m := must.Get(f.loadHiding(nil, hide))(t)
	assert.Equal(t, "[k-word p-word d-word]", fmt.Sprint(hidden))
	for name, want := range map[string]string{"web.a": "[]", "web.b": "[l-word of <host> l-word of <host> again]", "reader": "[l-word of <host>]"} {
		hidden = nil
		r := m.Resource(name)
		_, err := r.Resolve(any(r.Config), manifest.Scope{Expressions: f.evaluator(), State: state, Hide: hide})
		assert.True(t, err == nil && fmt.Sprint(hidden) == want, "%s hides %v (%v), want %s", name, hidden, err, want)
	}
	hidden = nil
	long := func(string) any { return map[string]any{"state": map[string]any{"id": strings.Repeat("x", 20)}} }
	_, err := m.Resource("reader").Resolve("{{ web.o }}", manifest.Scope{Expressions: f.evaluator(), State: long, Hide: hide})
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
	all := must.Get(manifest.Includes(manifest.Source{Name: "m.yaml", Data: []byte(f["m.yaml"])}, f.evaluator()))(t)
	show := func(all manifest.Inclusions) string {
		return fmt.Sprint(all[""].Candidates, all[""].Directories, all["web"].Candidates, all["web"].Directories)
	}
	assert.Equal(t, "[x y] [own/] [] [conf/]", show(all))
	m := must.Get(f.load(nil))(t)
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
	outline := must.Get(manifest.Outline(manifest.Source{Name: "m.yaml", Data: []byte(f["m.yaml"])}, f.evaluator()))(t)
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
		selected := must.Get(m.Select([]string{"z"}))(t)
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

// Whatever a file holds, Load answers with a manifest that can be hashed, or with problems whose positions are in the file.
func FuzzLoad(f *testing.F) {
	f.Add(disks)
	yamltest.Seed(f)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := load(t, map[string]any{"region": "eu"}, text)
		if err != nil {
			yamltest.Showable(t, err, yamltest.Lines(text))
			return
		}
		for _, r := range m.Resources {
			must.Get(json.Marshal(r.Config))(t)
			for key := range r.Config {
				r.At(key, "0")
			}
		}
		require.Equal(t, 64, len(m.Hash()), "no hash")
	})
}

func large(n int) string {
	var b strings.Builder
	b.WriteString("resources:\n")
	for i := range n {
		fmt.Fprintf(&b, "  r%d:\n    type: deployster/file\n", i)
		if i > 0 {
			fmt.Fprintf(&b, "    dependencies: {before: r%d}\n", i-1-i%7*(i/14))
			fmt.Fprintf(&b, "    config: {path: 'x/{{ before.state.path }}-%d', content: 'hello {{ region }} %d', mode: '0644', list: [1, 2, 3]}\n", i, i)
		}
	}
	return b.String()
}

func TestThousandsOfResources(t *testing.T) {
	n := ringtest.Cases(2_000, 10_000)
	m := mustLoad(t, map[string]any{"region": "eu"}, large(n))
	place := map[string]int{}
	for i, r := range m.Resources {
		place[r.Name] = i
		for _, d := range m.Dependencies(r.Name) {
			if at, there := place[d]; !there || at >= i {
				t.Fatalf("%s stands before %s, on which it depends", r.Name, d)
			}
		}
	}
	assert.Len(t, place, n)
}

// tree is a workspace: texts of files by name.
type tree map[string]string

func (f tree) evaluator() *expression.Evaluator {
	return expression.OverAll(func(name string) (string, error) {
		if text, ok := f[name]; ok {
			return text, nil
		}
		return "", fmt.Errorf("there is no such file: %w", fs.ErrNotExist)
	})
}

func (f tree) load(variables map[string]any) (*manifest.Manifest, error) {
	return f.loadHiding(variables, nil)
}

func (f tree) loadHiding(variables map[string]any, hide func(any)) (*manifest.Manifest, error) {
	return manifest.Load([]manifest.Source{{Name: "m.yaml", Data: []byte(f["m.yaml"])}}, manifest.Options{
		Variables: variables, Evaluator: f.evaluator(), Workspace: "/ws", Home: "/home/me", Hide: hide,
	})
}

const site = `
variables:
  title: {type: string}
  pages: {default: [index]}
resources:
  dir: {type: x, config: {name: '{{ title }}'}}
  page:
    type: x
    for_each: '{{ pages }}'
    dependencies: {dir: dir}
    config: {path: '{{ dir.state.id }}/{{ each.key }}', text: '{% include "page.txt" %}'}
outputs:
  where: '{{ dir.state.id }}'
  all: '{{ page.values() | map(attribute="state.id") | sort | join(" ") }}'
`

var sites = tree{
	"sites/module.yaml": site, "sites/page.txt": "{{ title }} of {{ each.key }}",
	"m.yaml": `
resources:
  host: {type: x}
  index: {type: x, dependencies: {all: web, one: 'web[b]'}, config: {at: '{{ all.a.where }} {{ one.all }}'}}
modules:
  web: {source: ./sites, for_each: [a, b], vars: {title: 'site {{ each.key }}', pages: [x, y]}}
  late: {source: ./sites, dependencies: {h: host}, vars: {title: '{{ h.state.id }}'}, when: '{{ h is defined }}'}
  off: {source: ./sites, when: false, vars: {title: x}}
outputs: {late: '{{ late.where }}', all: '{{ web | length }}'}
`,
}

// state is what is seen of a resource, which has its name as its id.
func state(name string) any {
	return map[string]any{"name": name, "state": map[string]any{"id": "<" + name + ">"}}
}

func TestAModuleIsAManifestWithin(t *testing.T) {
	m := must.Get(sites.load(map[string]any{"region": "eu"}))(t)
	const all = "host web[a].dir web[a].page[x] web[a].page[y] web[b].dir web[b].page[x] web[b].page[y] late.dir late.page[index] index"
	have := strings.Fields(names(m))
	slices.Sort(have)
	want := strings.Fields(all)
	slices.Sort(want)
	assert.Equal(t, want, have)
	for name, want := range map[string]string{
		"web[a].dir":       "map[name:site a]",
		"web[b].page[y]":   "map[path:<web[b].dir>/y text:site b of y]",
		"late.page[index]": "map[path:<late.dir>/index text:<host> of index]",
		"index":            "map[at:<web[a].dir> <web[b].page[x]> <web[b].page[y]>]",
	} {
		r := m.Resource(name)
		got, err := r.Resolve(any(r.Config), manifest.Scope{Expressions: sites.evaluator(), State: state})
		require.NoError(t, err, name)
		assert.Equal(t, want, fmt.Sprint(got), name)
	}
	for name, want := range map[string][]string{
		"web[a].page[x]": {"web[a].dir"}, "late.dir": {"host"}, "late.page[index]": {"host", "late.dir"},
		"index": {"web[a].dir", "web[a].page[x]", "web[a].page[y]", "web[b].dir", "web[b].page[x]", "web[b].page[y]"},
	} {
		assert.Equal(t, want, m.Dependencies(name), name)
	}
	for name, want := range map[string]string{"late.page[index]": "[host late.dir]", "late.dir": "[host]", "web[a].dir": "[]", "web[a].page[x]": "[web[a].dir]"} {
		needs := must.Get(m.Resource(name).Needs(any(m.Resource(name).Config), sites.evaluator()))(t)
		assert.Equal(t, want, fmt.Sprint(needs), "%s needs the states of %q, want %s", name, needs, want)
	}
	for _, o := range m.Outputs {
		got, err := o.Resolve(manifest.Scope{Expressions: sites.evaluator(), State: state})
		want := map[string]any{"late": "<late.dir>", "all": int64(2)}[o.Name]
		assert.True(t, err == nil && got == want, "output %s is %v (%v), want %v", o.Name, got, err, want)
	}
}

func TestTargetsMayBeInModules(t *testing.T) {
	m := must.Get(sites.load(nil))(t)
	for name, want := range map[string]string{
		"web":            "web[a].dir web[a].page[x] web[a].page[y] web[b].dir web[b].page[x] web[b].page[y]",
		"web[b]":         "web[b].dir web[b].page[x] web[b].page[y]",
		"web[b].page":    "web[b].page[x] web[b].page[y]",
		"web[b].page[x]": "web[b].page[x]",
		"web.page[x]":    "web[a].page[x] web[b].page[x]",
		"late.dir":       "late.dir",
		"web[c]":         `"web" has no instance "c"; there are a, b`,
		"web[a].pag":     `there is no resource "web[a].pag", did you mean "web[a].page"?`,
		"web[a].page[z]": `"web[a].page" has no instance "z"; there are x, y`,
		"lat.dir":        `there is no resource "lat.dir", did you mean "late"?`,
		"host.x":         "there is no resource",
		"off":            `the resource "off" is off: its when at m.yaml:8:32 is false`,
		"web.":           "there is no resource",
	} {
		names, err := m.Named(name)
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		assert.False(t, got != want && (err == nil || !strings.HasPrefix(got, want)), "%s means %q, want %q", name, got, want)
	}
}

func TestWhatIsWrongWithModulesIsSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		module, call string
		want         []string
	}{
		"a module that is not there":  {"", "{source: ./nowhere}", []string{`m.yaml:2:17: modules.web.source: nowhere/module.yaml cannot be read: there is no such file`}},
		"no source":                   {"", "{}", []string{"the module has no source"}},
		"as for git clone":            {"", "{source: 'git@git.example:org/repo'}", []string{"write git::ssh://git@git.example/org/repo//DIRECTORY?ref=TAG"}},
		"an expression as a source":   {"", "{source: './{{ x }}'}", []string{"cannot be an expression"}},
		"a source that is no path":    {"", "{source: web}", []string{"begins with ./ or ../"}},
		"a way out":                   {"", "{source: ../up}", []string{"leads out of the workspace"}},
		"a variable too much":         {"variables: {title: {}}", "{source: ./web, vars: {titel: x}}", []string{`m.yaml:2:31: modules.web.vars.titel: the module declares no variable "titel"`, `did you mean "title"?`, `m.yaml:2:3: modules.web: the module needs the variable "title" (web/module.yaml:1:13)`}},
		"a value of another type":     {"variables: {n: {type: integer}}", "{source: ./web, vars: {n: many}}", []string{"m.yaml:2:34: modules.web.vars.n: "}},
		"a default of another type":   {"variables: {n: {type: integer, default: x}}", "{source: ./web}", []string{"web/module.yaml:1:41: variables.n: ", "(in module web, called at m.yaml:2:3)"}},
		"a plug that is not there":    {"resources: {a: {type: x}}", "{source: ./web, plugs: {root: ot}}", []string{`m.yaml:2:38: modules.web.plugs.root: the manifest defines no plug "ot" (add plugs.ot.path)`}},
		"plugs of its own":            {"plugs: {p: {path: /x}}", "{source: ./web}", []string{"web/module.yaml:1:1: plugs: a module has no plugs of its own"}},
		"a name that is not defined":  {"resources: {a: {type: x, config: {b: '{{ region }}'}}}", "{source: ./web}", []string{`web/module.yaml:1:42: resources.a.config.b: "region" is not defined`, "(in module web, called at m.yaml:2:3)"}},
		"a name that is nobody's":     {"", "{source: ./web, vars: {}, for_each: [a], when: '{{ nobody }}'}", []string{`"nobody" is not defined`}},
		"itself":                      {"modules: {me: {source: ../web}}", "{source: ./web}", []string{"web/module.yaml:1:24: modules.me.source: the module calls itself: web → web (in module web, called at m.yaml:2:3)"}},
		"no YAML":                     {"a: [", "{source: ./web}", []string{"web/module.yaml:", "(in module web, called at m.yaml:2:3)"}},
		"nothing":                     {"# empty", "{source: ./web}", []string{"web/module.yaml:1:1: the file is empty; a module needs resources, modules or outputs"}},
		"when of what is late":        {"variables: {p: {}}\nresources: {a: {type: x, when: '{{ p }}'}}", "{source: ./web, dependencies: {h: host}, vars: {p: '{{ h.state.list }}'}}", []string{`cannot read the variable "p", whose value waits for the state of something`}},
		"when of what a module tells": {"outputs: {o: 1}", "{source: ./web}\n  two: {source: ./web, dependencies: {w: web}, when: '{{ w.o == 1 }}'}", []string{`m.yaml:3:58: modules.two.when: when is decided before anything runs`}},
		"when asks which there are":   {"outputs: {o: 1}", "{source: ./web, for_each: [a]}\n  two: {source: ./web, dependencies: {w: web}, when: '{{ w.a is defined and w.b is not defined }}'}\n  three: {source: ./nowhere, dependencies: {w: two}}", []string{"three.source: nowhere/module.yaml cannot be read"}},
		"an alias that is a variable": {"variables: {a: {default: 1}}\nresources: {b: {type: x}, c: {type: x, dependencies: {a: b}}}", "{source: ./web}", []string{`the alias "a" is also the name of a variable; choose another (in module web`}},
		"a default that reads itself": {"variables: {a: {default: '{{ a }}'}}", "{source: ./web}", []string{`variables.a.default: "a" is not defined`, "(in module web, called at m.yaml:2:3)"}},
		"a name twice":                {"outputs: {o: 1}", "{source: ./web}\n  host: {source: ./web}", []string{`the name "host" is taken already at m.yaml:3:3; a module and a resource cannot have the same`}},
		"a resource of a module":      {"resources: {a: {type: x}}", "{source: ./web, dependencies: {a: web.a}}", []string{`there is no resource "web.a"`}},
	} {
		t.Run(name, func(t *testing.T) {
			f := tree{"web/module.yaml": tc.module, "m.yaml": "modules:\n  web: " + tc.call + "\nresources: {host: {type: x}}\n"}
			_, err := f.load(map[string]any{"region": "eu"})
			for _, want := range tc.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

func TestModulesAreBounded(t *testing.T) {
	f := tree{"m.yaml": "modules: {a: {source: ./m0}}"}
	for i := range 20 {
		f[fmt.Sprintf("m%d/module.yaml", i)] = fmt.Sprintf("modules: {a: {source: ../m%d}}", i+1)
	}
	assert.ErrorContains(t, must.Fail(f.load(nil)), "modules are called within each other more than 10 times", "deep ones")
	wide := tree{"m.yaml": "modules: {a: {source: ./m, for_each: '{{ range(1000) | list }}'}}", "m/module.yaml": "resources: {a: {type: x, for_each: '{{ range(1000) | list }}'}}"}
	assert.ErrorContains(t, must.Fail(wide.load(nil)), "more than 100000 resources", "many")
}

func TestPlugsAreGivenToModules(t *testing.T) {
	f := tree{
		"m.yaml": `
plugs: {ours: {path: /x, resource_names: ['web\.a$']}, other: {path: /y}}
modules: {web: {source: ./web, plugs: {root: ours}}, none: {source: ./web}}
`,
		"web/module.yaml":    "modules: {in: {source: ./in, plugs: {docker: root}}}\nresources: {a: {type: x}}",
		"web/in/module.yaml": "resources: {b: {type: x}}",
	}
	m := must.Get(f.load(nil))(t)
	for _, tc := range []struct{ resource, plug, want string }{
		{"web.a", "root", "ours"}, {"web.a", "ours", ""}, {"web.a", "other", ""}, {"web.in.b", "docker", "ours"}, {"web.in.b", "root", ""}, {"none.a", "root", ""}, {"none.in.b", "docker", ""},
	} {
		got := ""
		if p := m.Resource(tc.resource).Plug(m, tc.plug); p != nil {
			got = p.Name
		}
		assert.Equal(t, tc.want, got, "%s gets %q as %q, want %q", tc.resource, got, tc.plug, tc.want)
	}
	p := m.Plug("ours")
	assert.True(t, p.Allows("web.a", "x") && !p.Allows("web.in.b", "x"), "patterns are matched with addresses")
}

// A manifest with modules is what somebody would write who has none.
func TestPropertyModulesAreWhatTheyContain(t *testing.T) { //nolint:gocyclo // each part of a manifest beside what it is by hand
	rapid.Check(t, func(t *rapid.T) {
		many, inner, nested := rapid.Bool().Draw(t, "many"), rapid.Bool().Draw(t, "inner"), rapid.Bool().Draw(t, "nested")
		value := rapid.SampledFrom([]string{"plain", "{{ region }}", "{{ each.key }}", "{{ up.state.id }}", "{{ up.state.id }} of {{ region }}"}).Draw(t, "value")
		if !many && strings.Contains(value, "each") {
			value = "one"
		}
		config := rapid.SampledFrom([]string{"{{ p }}", "{{ p }}-{{ q }}", "{{ [p, first.state.id] | join }}", "{{ q }}"}).Draw(t, "config")

		f := tree{"m/module.yaml": "variables: {p: {type: string}, q: {default: dq}}\nresources:\n  one: {type: x, config: {c: '{{ p }}'}}\n  two:\n    type: x\n    dependencies: {first: one}\n    config: {c: '" + config + "'}\n"}
		call := "  m:\n    source: ./m\n    dependencies: {up: host}\n    vars: {p: '" + value + "'}\n"
		keys := []string{""}
		if many {
			call, keys = call+"    for_each: [a, b]\n", []string{"a", "b"}
		}
		each := []string{""}
		if inner {
			f["m/module.yaml"], each = f["m/module.yaml"]+"    for_each: [k, l]\n", []string{"k", "l"}
		}
		if nested {
			f["m/module.yaml"] += "modules: {n: {source: ./n, vars: {r: '{{ p }}{{ q }}'}}}\n"
			f["m/n/module.yaml"] = "variables: {r: {}}\nresources: {leaf: {type: x, config: {c: '{{ r }}'}}}\noutputs: {r: '{{ r }}{{ leaf.state.id }}'}\n"
			f["m/module.yaml"] += "outputs: {o: '{{ one.state.id }}{{ n.r }}'}\n"
		} else {
			f["m/module.yaml"] += "outputs: {o: '{{ one.state.id }}'}\n"
		}
		f["m.yaml"] = "resources:\n  host: {type: x}\n  user: {type: x, dependencies: {mod: '" + map[bool]string{true: "m[b]", false: "m"}[many] + "'}, config: {c: '{{ mod.o }}'}}\nmodules:\n" + call

		// By hand: each name is its address without what names cannot have.
		flat := func(address string) string { return strings.NewReplacer(".", "_", "[", "_", "]", "").Replace(address) }
		hand := "resources:\n  host: {type: x}\n"
		var all []string
		add := func(address, depends, config string) {
			all = append(all, address)
			hand += fmt.Sprintf("  %s: {type: x, dependencies: {%s}, config: {c: \"%s\"}}\n", flat(address), depends, config)
		}
		for _, key := range keys {
			at := "m"
			if many {
				at = "m[" + key + "]"
			}
			// The expression of the variable, where it is read: as a text of its own.
			p := "(" + strings.NewReplacer("{{ region }}", "~ region", "{{ each.key }}", "'"+key+"'", "{{ up.state.id }} of ", "up.state.id ~ ' of ' ", "{{ up.state.id }}", "up.state.id", "plain", "'plain'", "one", "'one'").Replace(value) + ")"
			p = strings.Replace(p, "(~ ", "(", 1)
			written := strings.NewReplacer("q }}", "'dq' }}", "{{ p", "{{ "+p, "[p,", "["+p+",").Replace(config)
			add(at+".one", "up: host", "{{ "+p+" }}")
			for _, e := range each {
				name := at + ".two"
				if inner {
					name += "[" + e + "]"
				}
				add(name, "up: host, first: "+flat(at+".one"), written)
			}
			if nested {
				add(at+".n.leaf", "up: host", "{{ "+p+" ~ 'dq' }}")
			}
			if key == keys[len(keys)-1] {
				depends, told := "up: host, one: "+flat(at+".one"), "{{ one.state.id }}"
				for i, e := range each {
					name := at + ".two"
					if inner {
						name += "[" + e + "]"
					}
					depends += fmt.Sprintf(", w%d: %s", i, flat(name))
				}
				if nested {
					depends, told = depends+", leaf: "+flat(at+".n.leaf"), "{{ one.state.id ~ "+p+" ~ 'dq' ~ leaf.state.id }}"
				}
				hand += fmt.Sprintf("  user: {type: x, dependencies: {%s}, config: {c: \"%s\"}}\n", depends, told)
				all = append(all, "user")
			}
		}

		variables := map[string]any{"region": "eu"}
		got, err := f.load(variables)
		require.NoError(t, err, "%v", f)
		want, err := tree{"m.yaml": hand}.load(variables)
		require.NoError(t, err, "%s", hand)
		require.Len(t, got.Resources, len(want.Resources))
		scope := manifest.Scope{Expressions: f.evaluator(), Variables: variables, State: func(name string) any { return state(flat(name)) }}
		for _, address := range all {
			mine, theirs := got.Resource(address), want.Resource(flat(address))
			a, err := mine.Resolve(any(mine.Config), scope)
			b := must.Get(theirs.Resolve(any(theirs.Config), scope))(t)
			require.True(t, err == nil && reflect.DeepEqual(a, b), "%s is %v (%v), by hand %v\n%v\n%s", address, a, err, b, f, hand)
			var after []string
			for _, name := range got.Dependencies(address) {
				after = append(after, flat(name))
			}
			before := slices.DeleteFunc(want.Dependencies(flat(address)), func(name string) bool { return address == "user" && name == "host" })
			slices.Sort(after)
			require.Equal(t, before, after, "%v, %v", address, hand)
		}
		for i, r := range got.Resources {
			for _, name := range got.Dependencies(r.Name) {
				require.True(t, slices.ContainsFunc(got.Resources[:i], func(other *manifest.Resource) bool { return other.Name == name }), name)
			}
		}
	})
}
