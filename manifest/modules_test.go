package manifest_test

import (
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/manifest"
)

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
	m, err := sites.load(map[string]any{"region": "eu"})
	require.NoError(t, err)
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
		if needs, err := m.Resource(name).Needs(any(m.Resource(name).Config), sites.evaluator()); err != nil || fmt.Sprint(needs) != want {
			t.Errorf("%s needs the states of %q (%v), want %s", name, needs, err, want)
		}
	}
	for _, o := range m.Outputs {
		got, err := o.Resolve(manifest.Scope{Expressions: sites.evaluator(), State: state})
		if want := map[string]any{"late": "<late.dir>", "all": int64(2)}[o.Name]; err != nil || got != want {
			t.Errorf("output %s is %v (%v), want %v", o.Name, got, err, want)
		}
	}
}

func TestTargetsMayBeInModules(t *testing.T) {
	m, err := sites.load(nil)
	require.NoError(t, err)
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
		if got != want && (err == nil || !strings.HasPrefix(got, want)) {
			t.Errorf("%s means %q, want %q", name, got, want)
		}
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
	_, err := f.load(nil)
	assert.ErrorContains(t, err, "modules are called within each other more than 10 times", "deep ones")
	wide := tree{"m.yaml": "modules: {a: {source: ./m, for_each: '{{ range(1000) | list }}'}}", "m/module.yaml": "resources: {a: {type: x, for_each: '{{ range(1000) | list }}'}}"}
	_, err = wide.load(nil)
	assert.ErrorContains(t, err, "more than 100000 resources", "many")
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
	m, err := f.load(nil)
	require.NoError(t, err)
	for _, tc := range []struct{ resource, plug, want string }{
		{"web.a", "root", "ours"}, {"web.a", "ours", ""}, {"web.a", "other", ""}, {"web.in.b", "docker", "ours"}, {"web.in.b", "root", ""}, {"none.a", "root", ""}, {"none.in.b", "docker", ""},
	} {
		got := ""
		if p := m.Resource(tc.resource).Plug(m, tc.plug); p != nil {
			got = p.Name
		}
		assert.Equal(t, tc.want, got, "%s gets %q as %q, want %q", tc.resource, got, tc.plug, tc.want)
	}
	if p := m.Plug("ours"); !p.Allows("web.a", "x") || p.Allows("web.in.b", "x") {
		t.Error("patterns are matched with addresses")
	}
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
			b, errors := theirs.Resolve(any(theirs.Config), scope)
			if err != nil || errors != nil || !reflect.DeepEqual(a, b) {
				t.Fatalf("%s is %v (%v), by hand %v (%v)\n%v\n%s", address, a, err, b, errors, f, hand)
			}
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
