package manifest_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/usage"
)

func TestWhatIsDeclaredOnceMayBeMany(t *testing.T) {
	for _, tc := range []struct{ of, text, want string }{
		{"a list", "a: {type: x, for_each: [web, db, 3]}", "a[web] a[db] a[3]"},
		{"a mapping, by key", "a: {type: x, for_each: {web: 1, db: {size: 2}}}", "a[db] a[web]"},
		{"an expression", "a: {type: x, for_each: '{{ servers }}'}", "a[eu] a[us]"},
		{"a list with expressions", "a: {type: x, for_each: ['{{ region }}', us]}", "a[eu] a[us]"},
		{"nothing", "a: {type: x, for_each: '{{ servers | select(\"eq\", \"\") | list }}'}", ""},
		{"those that are on", "a: {type: x, for_each: '{{ servers }}', when: '{{ each.value.on }}'}", "a[us]"},
		{"off", "a: {type: x, when: '{{ region == \"us\" }}'}\n  b: {type: x}", "b"},
		{"on", "a: {type: x, when: '{{ region == \"eu\" }}'}", "a"},
		{"one follows another", "a: {type: x, when: false}\n  b: {type: x, when: '{{ d is defined }}', dependencies: {d: a}}\n  c: {type: x}", "c"},
		{"each after what it depends on", "b: {type: x, for_each: '{{ servers }}', dependencies: {d: 'a[{{ each.key }}]'}}\n  a: {type: x, for_each: '{{ servers }}'}", "a[eu] a[us] b[eu] b[us]"},
	} {
		m := mustLoad(t, map[string]any{"region": "eu", "servers": map[string]any{"eu": map[string]any{"on": false}, "us": map[string]any{"on": true}}}, "resources:\n  "+tc.text)
		assert.Equal(t, tc.want, names(m))
	}
}

func TestInstancesAreDependedOn(t *testing.T) {
	m := mustLoad(t, map[string]any{"all": []any{"a", "b"}}, `
resources:
  disk: {type: x, for_each: '{{ all }}'}
  vm: {type: x, for_each: '{{ all }}', dependencies: {own: 'disk[{{ each.key }}]'}, config: {on: '{{ own.name }}'}}
  one: {type: x, dependencies: {d: 'disk[b]'}}
  list: {type: x, dependencies: {disks: disk}, config: {n: '{{ disks | length }}'}}
  off: {type: x, for_each: '{{ all }}', when: '{{ each.key == "a" }}'}
  asks: {type: x, dependencies: {o: 'off[b]'}, config: {a: '{{ o.name if o is defined else "none" }}'}}
`)
	for name, want := range map[string][]string{
		"vm[a]": {"disk[a]"}, "vm[b]": {"disk[b]"}, "one": {"disk[b]"}, "list": {"disk[a]", "disk[b]"}, "asks": {}, "disk[a]": {},
	} {
		got := m.Dependencies(name)
		assert.True(t, len(got)+len(want) == 0 || reflect.DeepEqual(got, want), "%s depends on %q, want %q", name, got, want)
	}
	sees := func(resource, written string) any {
		return must.Get(m.Resource(resource).Resolve(written, manifest.Scope{
			Expressions: expression.New(t.TempDir()), Variables: map[string]any{"v": 1}, State: func(name string) any { return name },
		}))(t)
	}
	got, want := sees("list", "{{ [v, disks] }}"), []any{int64(1), map[string]any{"a": "disk[a]", "b": "disk[b]"}}
	assert.True(t, reflect.DeepEqual(got, want), "its expressions see %v, want %v", got, want)
	if got, want := sees("vm[b]", "{{ [own, each] }}"), []any{"disk[b]", map[string]any{"key": "b", "value": "b"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("the expressions of an instance see %v, want %v", got, want)
	}
}

func TestTargetsMayBeInstances(t *testing.T) {
	m := mustLoad(t, nil, `
resources:
  disk: {type: x, for_each: [a, b]}
  vm: {type: x, for_each: [a, b], dependencies: {d: 'disk[{{ each.key }}]'}}
  none: {type: x, for_each: []}
  off: {type: x, when: false}
`)
	for target, want := range map[string]string{
		"vm": "disk[a] disk[b] vm[a] vm[b]", "vm[b]": "disk[b] vm[b]", "disk[a]": "disk[a]", "none": "",
	} {
		selected, err := m.Select([]string{target})
		if err != nil {
			t.Errorf("%s: %v", target, err)
		} else if got := names(selected); got != want {
			t.Errorf("%s selects %q, want %q", target, got, want)
		}
	}
	assert.Equal(t, "disk[b] vm[b]", strings.Join(must.Get(m.Dependents([]string{"disk[b]"}))(t), " "))
	for target, want := range map[string]string{
		"vm[c]": `"vm" has no instance "c"; there are a, b`, "none[a]": `"none" has no instance "a"; it has none`,
		"off": `the resource "off" is off: its when at a.yaml:6:24 is false`, "vn": `there is no resource "vn"`,
	} {
		assert.ErrorContains(t, must.Fail(m.Select([]string{target})), want, target)
	}
}

// A plug that admits a resource by its name admits its instances, however strictly the name is written.
func TestAPlugAdmitsInstances(t *testing.T) {
	m := mustLoad(t, nil, `
plugs:
  one: {path: /a, resource_names: ['db$']}
  instance: {path: /a, resource_names: ['db\[a\]$']}
resources: {}
`)
	for _, tc := range []struct {
		plug, name string
		want       bool
	}{
		{"one", "db", true}, {"one", "db[a]", true}, {"one", "dbs[a]", false},
		{"instance", "db[a]", true}, {"instance", "db[b]", false}, {"instance", "db", false},
	} {
		assert.Equal(t, tc.want, m.Plug(tc.plug).Allows(tc.name, "x"), "%v, %v", tc.plug, tc.name)
	}
}

// What differs in what it is made from is another resource, as what a plan is bound to and a revision deploys says;
// where for_each is written otherwise and comes to the same, it is the same.
func TestTheHashOfAnInstanceHasWhatItIsMadeFrom(t *testing.T) {
	of := func(each string) string {
		m := mustLoad(t, map[string]any{"n": map[string]any{"a": 1}}, "resources: {r: {type: x, for_each: "+each+", config: {n: '{{ each.value }}'}}}")
		return m.Resource("r[a]").Hash()
	}
	assert.NotEqual(t, of("{a: 2}"), of("{a: 1}"), "an instance has the same hash with another value")
	assert.Equal(t, of("'{{ n }}'"), of("{a: 1}"), "an instance has another hash where its for_each is written otherwise")
}

func TestInstancesAreBounded(t *testing.T) {
	_, err := load(t, nil, "resources:\n  a: {type: x, for_each: '{{ range(60000) | list }}'}\n  b: {type: x, for_each: '{{ range(60000) | list }}'}")
	assert.EqualError(t, err, "a.yaml:3:26: resources.b.for_each: with its 60000 instances there would be more than 100000 resources")
}

// A manifest with for_each and when is what a person would write without them.
func TestInstancesAreWhatIsWrittenOut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(rt, "declared")
		var short strings.Builder
		short.WriteString("resources:\n")
		edges := map[string]map[string]bool{}
		count := make([]int, n)
		for i := range n {
			count[i] = rapid.IntRange(0, 4).Draw(rt, "instances")
			on := rapid.IntRange(0, 4).Draw(rt, "on")
			fmt.Fprintf(&short, "  r%d: {type: x, for_each: '{{ range(%d) | list }}', when: '{{ each.value < %d }}', dependencies: {", i, count[i], on)
			count[i] = min(count[i], on)
			for k := range count[i] {
				edges[fmt.Sprintf("r%d[%d]", i, k)] = map[string]bool{}
			}
			if i > 0 && rapid.Bool().Draw(rt, "depends") {
				d := rapid.IntRange(0, i-1).Draw(rt, "on which")
				fmt.Fprintf(&short, "d: r%d", d)
				for k := range count[i] {
					for other := range count[d] {
						edges[fmt.Sprintf("r%d[%d]", i, k)][fmt.Sprintf("r%d[%d]", d, other)] = true
					}
				}
			}
			short.WriteString("}}\n")
		}
		m := mustLoad(t, nil, short.String())
		got := map[string]map[string]bool{}
		for i, r := range m.Resources {
			got[r.Name] = map[string]bool{}
			for _, d := range m.Dependencies(r.Name) {
				got[r.Name][d] = true
			}
			for _, later := range m.Resources[i:] {
				require.False(rt, got[r.Name][later.Name])
			}
		}
		require.Equal(rt, edges, got)
	})
}

func TestAnOutlineHasWhatIsDeclared(t *testing.T) {
	m, err := manifest.Outline(manifest.Source{Name: "a.yaml", Data: []byte("resources:\n  many: {type: x, for_each: '{{ all }}'}\n  off: {type: y, when: false}\n")}, nil)
	require.NoError(t, err)
	assert.True(t, names(m) == "many off" && m.Resource("many") != nil &&
		m.Resource("off").Type == "y", "it has %q, and by name %v and %v", names(m), m.Resource("many"), m.Resource("off"))
}

func TestKeysOfDependenciesReadVariables(t *testing.T) {
	const text = `resources:
  disks: {type: acme/disk, for_each: [a, b]}
  web: {type: acme/vm, for_each: [x], dependencies: {disk: "disks[{{ which }}]"}}
`
	var read usage.Variables
	at := manifest.Problem{Position: manifest.Position{File: "--var"}}
	read.Give("which", at)
	read.Give("whihc", at)
	_, err := manifest.Load([]manifest.Source{{Name: "m.yaml", Data: []byte(text)}}, manifest.Options{
		Variables: map[string]any{"which": "a", "whihc": "b"}, Evaluator: expression.New(t.TempDir()), Usage: &read,
	})
	unread := read.Unread()
	assert.True(t, err == nil && len(unread) == 1 && unread[0].Hint == "which", "%v; unread are %v", err, unread)
}

const waiting = `
resources:
  z: {type: x}
  a: {type: x, for_each: '{{ d.state }}', dependencies: {d: z}, when: '{{ each.value != "off" }}', config: {k: '{{ each.key }}'}}
  b: {type: x, for_each: '{{ d.state }}', dependencies: {d: z, own: 'a[{{ each.key }}]', first: 'a[1]'}}
  all: {type: x, dependencies: {as: a}, config: {n: '{{ as | length }}'}}
`

// expand makes the instances of a resource of a manifest where z has a state.
func expand(t *testing.T, m *manifest.Manifest, name string, state any) (string, error) {
	all, err := m.Resource(name).Expand(manifest.Scope{Expressions: expression.New(t.TempDir()), State: func(of string) any {
		if of == "a" {
			return map[string]any{"1": "a[1]", "2": "a[2]"}
		}
		return map[string]any{"state": state}
	}}, func(text string) bool { return strings.Contains(text, "hunter2") }, m.Room())
	var got []string
	for _, r := range all {
		got = append(got, r.Name+":"+strings.Join(r.After(), ","))
	}
	return strings.Join(got, " "), err
}

func TestALateResourceStandsForItsInstances(t *testing.T) {
	m := mustLoad(t, nil, waiting)
	require.Equal(t, "z a b all", names(m))
	for name, want := range map[string]string{"a": "z", "b": "a,z", "all": "a"} {
		assert.Equal(t, want, strings.Join(m.Dependencies(name), ","), name)
	}
	assert.True(t, m.Stands("a[k]").Name == "a" && m.Stands("z[k]") == nil &&
		m.Stands("a").Name == "a", "it does not stand for what it should")
	for _, tc := range []struct {
		name  string
		state any
		want  string
	}{
		{"a", []any{"1", int64(2)}, "a[1]:z a[2]:z"},
		{"a", map[string]any{"y": "on", "x": "off"}, "a[y]:z"},
		{"a", []any{}, ""},
		{"b", []any{"2"}, "b[2]:a[1],a[2],z"},
	} {
		got := must.Get(expand(t, m, tc.name, tc.state))(t)
		assert.Equal(t, tc.want, got, "%s of %v: got %q, want %q", tc.name, tc.state, got, tc.want)
	}
}

func TestInstancesThatCannotBeMadeLateAreRefused(t *testing.T) {
	m := mustLoad(t, nil, waiting)
	many := make([]any, 100_001)
	for i := range many {
		many[i] = int64(i)
	}
	for _, tc := range []struct {
		name  string
		state any
		want  string
	}{
		{"a", "text", "a.yaml:4:26: resources.a.for_each: must be a list or a mapping"},
		{"a", nil, "not nothing"},
		{"a", []any{"k", "k"}, `the list has "k" twice`},
		{"a", []any{"a]"}, `"a]" cannot be the key`},
		{"a", map[string]any{"a\nb": 1}, `cannot be the key`},
		{"a", []any{1.5}, "of a number make a mapping"},
		{"a", many, "with its 100001 instances there would be more than 100000 resources"},
		{"a", []any{"my hunter2\n"}, "a key would be a secret"},
		{"b", []any{"3"}, `a.yaml:5:69: resources.b.dependencies.own: "a" has no instance "3"; there are 1, 2`},
	} {
		_, err := expand(t, m, tc.name, tc.state)
		require.ErrorContains(t, err, tc.want, tc.name)
		assert.NotContains(t, err.Error(), "hunter2", tc.name)
	}
}

func TestTargetsMayBeInstancesThatAreNotKnownYet(t *testing.T) {
	m := mustLoad(t, nil, waiting)
	for targets, want := range map[string]string{"a[1]": "z a", "all a[1]": "z a all", "b": "z a b"} {
		some, err := m.Select(strings.Fields(targets))
		require.NoError(t, err, targets)
		require.Equal(t, want, names(some), targets)
		if a := some.Resource("a"); !a.Selects("1") || a.Selects("2") != (targets != "a[1]") {
			t.Errorf("%s selects the instances 1: %v, 2: %v", targets, a.Selects("1"), a.Selects("2"))
		}
	}
	assert.Equal(t, "a[1] b all", strings.Join(must.Get(m.Dependents([]string{"a[1]"}))(t), " "))
	assert.Error(t, must.Fail(m.Select([]string{"a[b c]"})), "a key that none can have is accepted")
}

func TestWhatIsWrongWithALateResourceIsSaidAtOnce(t *testing.T) {
	for written, want := range map[string]string{
		"a: {type: x, for_each: '{{ d.state ~ regoin }}', dependencies: {d: z}}":                                                            `"regoin" is not defined`,
		"a: {type: x, for_each: '{{ d.state }}', when: 3, dependencies: {d: z}}":                                                            "must be true or false",
		"a: {type: x, for_each: '{{ d.state }}', dependencies: {d: z, k: 'z[{{ each.key }}]'}}":                                             `"z" has no instances, as it has no for_each; write z`,
		"a: {type: x, for_each: '{{ d.state }}', dependencies: {d: z}}\n  b: {type: x, when: '{{ p.k is defined }}', dependencies: {p: a}}": "when is decided before anything runs",
	} {
		assert.ErrorContains(t, must.Fail(load(t, nil, "resources:\n  z: {type: x}\n  "+written)), want, written)
	}
}

// All resources of a manifest share the room for instances, also where two are found out at once; what
// is too much is refused before any of its keys is looked at.
func TestInstancesShareTheRoomOfTheirManifest(t *testing.T) {
	m := mustLoad(t, nil, strings.Replace(waiting, `when: '{{ each.value != "off" }}', `, "", 1))
	room := m.Room()
	expand := func(name string, n int, key string) error {
		state := make([]any, n)
		for i := range state {
			state[i] = int64(i)
		}
		if n > 0 {
			state[0] = key
		}
		_, err := m.Resource(name).Expand(manifest.Scope{Expressions: expression.New(t.TempDir()), State: func(string) any {
			return map[string]any{"state": state}
		}}, func(string) bool { return false }, room)
		return err
	}
	for _, tc := range []struct {
		n         int
		key, want string
	}{
		{60_000, "a", ""}, {40_000, "no key", "with its 40000 instances there would be more than 100000 resources"}, {39_996, "a", ""}, {1, "b", "with its 1 instances there would be more"}, {0, "", ""},
	} {
		err := expand("a", tc.n, tc.key)
		assert.True(t, (tc.want != "" || err == nil) &&
			(tc.want == "" || err != nil && strings.Contains(err.Error(), tc.want)), "%d more: %v, want %q", tc.n, err, tc.want)
	}
}

// What a module is given decides late which instances its resources have, but not which modules there are.
func TestAModuleIsToldWhatItCannotRead(t *testing.T) {
	for written, want := range map[string]string{
		"for_each: '{{ d.state.a }}'": "give what it reads to the module, under vars, and let the resources in it have for_each",
		"when: '{{ d.state.a }}'":     "it can ask whether d is defined, or give that to the module, under vars",
	} {
		_, err := load(t, nil, "resources: {z: {type: x}}\nmodules: {m: {source: ./none, dependencies: {d: z}, "+written+"}}\n")
		assert.ErrorContains(t, err, want, written)
	}
}

func TestMovedNames(t *testing.T) {
	m := mustLoad(t, nil, `
resources:
  now: {type: x, for_each: [a, b]}
  web: {type: x}
  last: {type: x}
moved:
  - {from: single, to: 'now[a]'}
  - {from: 'pages[b]', to: 'now[b]'}
  - {from: docs, to: web}
  - {from: first, to: second}
  - {from: second, to: last}
  - {from: front, to: module.front}
`[1:]+"  - {from: gone, to: now}\n")
	for from, want := range map[string]string{
		"single": "now[a]", "pages[b]": "now[b]", "pages[c]": "pages[c]", "docs": "web", "docs[k]": "web[k]", "docs2": "docs2",
		"first": "last", "second": "last", "last": "last", "front": "module.front", "front.inner[a]": "module.front.inner[a]",
		"gone[x]": "now[x]", "single[x]": "single[x]",
	} {
		assert.Equal(t, want, m.Renamed(from), from)
	}
}

func TestMovesEnd(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "moves")
		var text strings.Builder
		fmt.Fprintf(&text, "resources:\n  r%d: {type: x}\nmoved:\n", n)
		for _, i := range rapid.Permutation(indexes(n)).Draw(t, "order") {
			fmt.Fprintf(&text, "  - {from: r%d, to: r%d}\n", i, i+1)
		}
		m := must.Get(load(outer, nil, text.String()))(t)
		for i := range n + 1 {
			if got, want := m.Renamed(fmt.Sprintf("r%d", i)), fmt.Sprintf("r%d", n); got != want {
				t.Errorf("r%d is %s, want %s", i, got, want)
			}
		}
	})
}

func indexes(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func TestWhatIsMovedToMustBeDeclared(t *testing.T) {
	for to, want := range map[string]string{
		"page": "", "page[a.b]": "", "web.page[a]": "", "gone": "there is no resource gone to move to", "gone[a]": "there is no resource gone[a] to move to",
		"gone[a.b]": "there is no resource gone[a.b] to move to",
	} {
		_, err := load(t, nil, "resources:\n  page: {type: x, for_each: [a.b]}\nmoved:\n  - {from: was, to: '"+to+"'}\n")
		assert.True(t, (want != "" || err == nil) &&
			(want == "" || err != nil && strings.Contains(err.Error(), want)), "moved to %s: %v, want %q", to, err, want)
	}
}

func TestAResourceBecomesAnInstanceOfItsName(t *testing.T) {
	for move, want := range map[string]string{"{from: page, to: 'page[a]'}": "", "{from: page, to: pages}": "page is still declared"} {
		_, err := load(t, nil, `
resources:
  list: {type: x}
  page: {type: x, dependencies: {l: list}, for_each: '{{ l.state.names }}'}
  pages: {type: x, for_each: [b]}
moved: [`+move+"]\n")
		assert.True(t, (want != "" || err == nil) &&
			(want == "" || err != nil && strings.Contains(err.Error(), want)), "%s: %v, want %q", move, err, want)
	}
}
