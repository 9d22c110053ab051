package manifest_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/expression"
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
		t.Run(tc.of, func(t *testing.T) {
			m := mustLoad(t, map[string]any{"region": "eu", "servers": map[string]any{"eu": map[string]any{"on": false}, "us": map[string]any{"on": true}}}, "resources:\n  "+tc.text)
			if got := names(m); got != tc.want {
				t.Errorf("got the resources %q, want %q", got, tc.want)
			}
		})
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
		if got := m.Dependencies(name); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("%s depends on %q, want %q", name, got, want)
		}
	}
	sees := func(resource, written string) any {
		got, err := m.Resource(resource).Resolve(written, manifest.Scope{
			Expressions: expression.New(t.TempDir()), Variables: map[string]any{"v": 1}, State: func(name string) any { return name },
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got, want := sees("list", "{{ [v, disks] }}"), []any{int64(1), map[string]any{"a": "disk[a]", "b": "disk[b]"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("its expressions see %v, want %v", got, want)
	}
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
	if got, err := m.Dependents([]string{"disk[b]"}); err != nil || strings.Join(got, " ") != "disk[b] vm[b]" {
		t.Errorf("what depends on disk[b] is %q, %v", got, err)
	}
	for target, want := range map[string]string{
		"vm[c]": `"vm" has no instance "c"; there are a, b`, "none[a]": `"none" has no instance "a"; it has none`,
		"off": `the resource "off" is off: its when at a.yaml:6:24 is false`, "vn": `there is no resource "vn"`,
	} {
		if _, err := m.Select([]string{target}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got the error %v, want %s", target, err, want)
		}
	}
}

// A plug that admits a resource by its name admits its instances, however strictly the
// name is written.
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
		if got := m.Plug(tc.plug).Allows(tc.name, "x"); got != tc.want {
			t.Errorf("the plug %s allows %s: %t, want %t", tc.plug, tc.name, got, tc.want)
		}
	}
}

// What differs in what it is made from is another resource, as what a plan is bound to and
// a revision deploys says; where for_each is written otherwise and comes to the same, it is
// the same.
func TestTheHashOfAnInstanceHasWhatItIsMadeFrom(t *testing.T) {
	of := func(each string) string {
		m := mustLoad(t, map[string]any{"n": map[string]any{"a": 1}}, "resources: {r: {type: x, for_each: "+each+", config: {n: '{{ each.value }}'}}}")
		return m.Resource("r[a]").Hash()
	}
	if of("{a: 1}") == of("{a: 2}") {
		t.Error("an instance has the same hash with another value")
	}
	if of("{a: 1}") != of("'{{ n }}'") {
		t.Error("an instance has another hash where its for_each is written otherwise")
	}
}

func TestInstancesAreBounded(t *testing.T) {
	_, err := load(t, nil, "resources:\n  a: {type: x, for_each: '{{ range(60000) | list }}'}\n  b: {type: x, for_each: '{{ range(60000) | list }}'}")
	if want := "a.yaml:3:26: resources.b.for_each: with its 60000 instances there would be more than 100000 resources"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
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
				if got[r.Name][later.Name] {
					rt.Fatalf("%s stands before %s, on which it depends", r.Name, later.Name)
				}
			}
		}
		if !reflect.DeepEqual(got, edges) {
			rt.Fatalf("of\n%s\nthere are %v, want %v", short.String(), got, edges)
		}
	})
}

func TestAnOutlineHasWhatIsDeclared(t *testing.T) {
	m, err := manifest.Outline(manifest.Source{Name: "a.yaml", Data: []byte("resources:\n  many: {type: x, for_each: '{{ all }}'}\n  off: {type: y, when: false}\n")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if names(m) != "many off" || m.Resource("many") == nil || m.Resource("off").Type != "y" {
		t.Errorf("it has %q, and by name %v and %v", names(m), m.Resource("many"), m.Resource("off"))
	}
}

// A variable that only the key of a dependency reads is read.
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
	if unread := read.Unread(); err != nil || len(unread) != 1 || unread[0].Hint != "which" {
		t.Errorf("%v; unread are %v", err, unread)
	}
}
