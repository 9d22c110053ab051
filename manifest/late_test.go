package manifest_test

import (
	"strings"
	"testing"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/manifest"
)

const waiting = `
resources:
  z: {type: x}
  a: {type: x, for_each: '{{ d.state }}', dependencies: {d: z}, when: '{{ each.value != "off" }}', config: {k: '{{ each.key }}'}}
  b: {type: x, for_each: '{{ d.state }}', dependencies: {d: z, own: 'a[{{ each.key }}]', first: 'a[1]'}}
  all: {type: x, dependencies: {as: a}, config: {n: '{{ as | length }}'}}
`

// expand makes the instances of a resource of a manifest where z has a state.
func expand(t *testing.T, m *manifest.Manifest, name string, state any) (string, error) {
	t.Helper()
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
	if got := names(m); got != "z a b all" {
		t.Fatalf("there are %s", got)
	}
	for name, want := range map[string]string{"a": "z", "b": "a,z", "all": "a"} {
		if got := strings.Join(m.Dependencies(name), ","); got != want {
			t.Errorf("%s depends on %s, want %s", name, got, want)
		}
	}
	if m.Stands("a[k]").Name != "a" || m.Stands("z[k]") != nil || m.Stands("a").Name != "a" {
		t.Error("it does not stand for what it should")
	}
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
		if got, err := expand(t, m, tc.name, tc.state); err != nil || got != tc.want {
			t.Errorf("%s of %v: got %q, %v, want %q", tc.name, tc.state, got, err, tc.want)
		}
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
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s of %.60v: got the error %v, want %s", tc.name, tc.state, err, tc.want)
		}
	}
}

func TestTargetsMayBeInstancesThatAreNotKnownYet(t *testing.T) {
	m := mustLoad(t, nil, waiting)
	for targets, want := range map[string]string{"a[1]": "z a", "all a[1]": "z a all", "b": "z a b"} {
		some, err := m.Select(strings.Fields(targets))
		if err != nil || names(some) != want {
			t.Fatalf("%s selects %s, %v", targets, names(some), err)
		}
		if a := some.Resource("a"); !a.Selects("1") || a.Selects("2") != (targets != "a[1]") {
			t.Errorf("%s selects the instances 1: %v, 2: %v", targets, a.Selects("1"), a.Selects("2"))
		}
	}
	if got, err := m.Dependents([]string{"a[1]"}); err != nil || strings.Join(got, " ") != "a[1] b all" {
		t.Errorf("what depends on a[1] is %q, %v", got, err)
	}
	if _, err := m.Select([]string{"a[b c]"}); err == nil {
		t.Error("a key that none can have is accepted")
	}
}

func TestWhatIsWrongWithALateResourceIsSaidAtOnce(t *testing.T) {
	for written, want := range map[string]string{
		"a: {type: x, for_each: '{{ d.state ~ regoin }}', dependencies: {d: z}}":                                                            `"regoin" is not defined`,
		"a: {type: x, for_each: '{{ d.state }}', when: 3, dependencies: {d: z}}":                                                            "must be true or false",
		"a: {type: x, for_each: '{{ d.state }}', dependencies: {d: z, k: 'z[{{ each.key }}]'}}":                                             `"z" has no instances, as it has no for_each; write z`,
		"a: {type: x, for_each: '{{ d.state }}', dependencies: {d: z}}\n  b: {type: x, when: '{{ p.k is defined }}', dependencies: {p: a}}": "when is decided before anything runs",
	} {
		if _, err := load(t, nil, "resources:\n  z: {type: x}\n  "+written); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got the error %v, want %s", written, err, want)
		}
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
		n    int
		key  string
		want string
	}{
		{60_000, "a", ""}, {40_000, "no key", "with its 40000 instances there would be more than 100000 resources"}, {39_996, "a", ""}, {1, "b", "with its 1 instances there would be more"}, {0, "", ""},
	} {
		err := expand("a", tc.n, tc.key)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%d more: %v, want %q", tc.n, err, tc.want)
		}
	}
}

// What a module is given decides late which instances its resources have, but not which modules there are.
func TestAModuleIsToldWhatItCannotRead(t *testing.T) {
	for written, want := range map[string]string{
		"for_each: '{{ d.state.a }}'": "give what it reads to the module, under vars, and let the resources in it have for_each",
		"when: '{{ d.state.a }}'":     "it can ask whether d is defined, or give that to the module, under vars",
	} {
		_, err := load(t, nil, "resources: {z: {type: x}}\nmodules: {m: {source: ./none, dependencies: {d: z}, "+written+"}}\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", written, err)
		}
	}
}
