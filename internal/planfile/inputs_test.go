package planfile_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
)

func load(t *testing.T, text string) *manifest.Manifest {
	t.Helper()
	m, err := manifest.Load([]manifest.Source{{Name: "m.yaml", Data: []byte(text)}},
		manifest.Options{Evaluator: expression.New(t.TempDir()), Workspace: "/ws"})
	require.NoError(t, err)
	return m
}

func TestWhatBecameOfTheInputsOfAPlanIsNamed(t *testing.T) {
	const two = "resources:\n  a: {type: x}\n  b: {type: x}\n"
	was := map[string]any{"kept": 1, "set": "one", "gone": nil}
	f := &planfile.File{Salt: salt}
	require.NoError(t, f.Pin(load(t, two), was))
	for _, c := range []struct {
		name, text      string
		variables       map[string]any
		defined, valued []string
	}{
		{"nothing", two, was, nil, nil},
		{"resources", "resources:\n  c: {type: x}\n  b: {type: y}\n", was, []string{"c (m.yaml:2:3) is new", "b (m.yaml:3:3) is another", "a was removed"}, nil},
		{"a plug", "plugs: {p: {path: /p}}\n" + two, was, []string{"its plugs are others"}, nil},
		{"variables", two, map[string]any{"set": "two", "new": "", "kept": 1}, nil, []string{"new is new", "set has another value", "gone was removed"}},
	} {
		defined, valued, err := f.Changed(load(t, c.text), c.variables)
		if err != nil || !reflect.DeepEqual(defined, c.defined) || !reflect.DeepEqual(valued, c.valued) {
			t.Errorf("%s: %q, %q, %v; want %q, %q", c.name, defined, valued, err, c.defined, c.valued)
		}
	}
	_, _, err := f.Changed(load(t, two), map[string]any{"f": func() {}})
	assert.True(t, err != nil, "a variable that JSON cannot express was compared")
}

func TestVariablesAreCompletedByThoseOfAPlan(t *testing.T) {
	type flags = []vars.Flag
	file := func(path string) vars.Flag { return vars.Flag{File: path} }
	value := func(name, value string) vars.Flag {
		return vars.Flag{Name: name, Value: value}
	}
	f := &planfile.File{Given: []planfile.Variable{{Name: "a"}, {File: "f.yaml"}, {Name: "b"}, {Name: "a"}}}
	for _, c := range []struct {
		name       string
		given, all flags
		missing    []string
	}{
		{"in its order", flags{value("b", "1"), value("a", "2"), value("a", "3")}, flags{value("a", "2"), file("f.yaml"), value("b", "1"), value("a", "3")}, nil},
		{"one is for both", flags{value("a", "1"), value("b", "2")}, flags{value("a", "1"), file("f.yaml"), value("b", "2")}, nil},
		{"others come last", flags{value("z", "1"), value("y", "2"), value("a", "3"), value("b", "4")},
			flags{value("a", "3"), file("f.yaml"), value("b", "4"), value("y", "2"), value("z", "1")}, nil},
		{"files are taken as they are", flags{value("b", "1"), file("g.yaml"), value("a", "2")}, flags{value("b", "1"), file("g.yaml"), value("a", "2")}, nil},
		{"each that is missing is named once", nil, flags{file("f.yaml")}, []string{"a", "b"}},
	} {
		all, missing := f.Complete(c.given)
		assert.True(t, reflect.DeepEqual(all, c.all) && reflect.DeepEqual(missing, c.missing), "%s: %v, %v; want %v, %v", c.name, all, missing, c.all, c.missing)
	}
}
