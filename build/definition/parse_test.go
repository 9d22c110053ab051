package definition_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/build/plan"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
)

const base = `group: base
converge: 3
packages:
  gcc: {version: "9.1", released: gcc-8, build: [gcc, make], run: [glibc]}
  make:
    build: [gcc]
  core/glibc-2.x: {unbuildable: its plan is gone}
  glibc: {}
`

func TestADefinitionIsRead(t *testing.T) {
	d, err := definition.Parse("packages.yaml", []byte(base))
	require.NoError(t, err)
	var none *definition.Job
	for i := range d.Packages {
		none, d.Packages[i].Job = d.Packages[i].Job, nil
	}
	assert.Equal(t, &definition.Job{}, none)
	want := &definition.Definition{Group: "base", Converge: 3, Packages: []definition.Package{
		{Name: "gcc", At: at(4, 3), Version: "9.1", Released: "gcc-8", Build: []string{"gcc", "make"}, Run: []string{"glibc"}},
		{Name: "make", At: at(5, 3), Build: []string{"gcc"}},
		{Name: "core/glibc-2.x", At: at(7, 3), Unbuildable: "its plan is gone"},
		{Name: "glibc", At: at(8, 3)},
	}}
	assert.Equal(t, want, d)
}

func at(line, column int) yamlfile.Position {
	return yamlfile.Position{File: "packages.yaml", Line: line, Column: column}
}

func TestWhatIsWrongIsToldAtItsPlace(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "p.yaml:1:1: the file is empty; a build group needs a name, group, and packages or jobs"},
		{"packages and jobs", "group: g\npackages: {a: {}}\njobs: []", "p.yaml:3:1: jobs: a build group has packages or jobs, not both"},
		{"no group", "packages: {a: {}}", "p.yaml:1:1: there is no group"},
		{"no packages", "group: g", "p.yaml:1:1: there are no packages"},
		{"none of them", "group: g\npackages: {}", "p.yaml:2:11: packages: a build group needs a package at least"},
		{"a list", "group: g\npackages: [a]", "p.yaml:2:11: packages: must be a mapping of packages by name"},
		{"a wrong group", "group: g g\npackages: {a: {}}", `"g g" cannot be the name of a group`},
		{"a wrong package", "group: g\npackages: {../a: {}}", `"../a" cannot be the name of a package`},
		{"an unknown key", "group: g\npackages: {a: {biuld: []}}", `unknown key "biuld", did you mean "build"?`},
		{"an unknown package", "group: g\npackages:\n  gcc: {}\n  make: {build: [gc]}", `p.yaml:4:18: packages.make.build[0]: there is no package "gc", did you mean "gcc"?`},
		{"one twice", "group: g\npackages: {a: {}, b: {run: [a, a]}}", `duplicate package "a"`},
		{"converge 0", "group: g\nconverge: 0\npackages: {a: {}}", "p.yaml:2:11: converge: must be how often packages that need each other are built, a number from 1 to 10, not 0"},
		{"one runs with itself", "group: g\npackages: {a: {run: [a]}}", "package a cannot need itself to run; what its own build needs stands under build"},
		{"two run with each other", "group: g\npackages:\n  a: {run: [b]}\n  b: {run: [a]}", "packages need each other to run: a, b; only builds may need each other"},
		{"and two others", "group: g\npackages:\n  a: {run: [b]}\n  b: {run: [a]}\n  c: {run: [d]}\n  d: {run: [c]}", "p.yaml:5:12: packages.c.run: packages need each other to run: c, d"},
		{"a control character", "group: g\npackages: {a: {version: \"1\\e\"}}", "holds a control character"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := definition.Parse("p.yaml", []byte(c.text))
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// Whatever a file holds, Parse answers with a definition of which a plan can be made, with
// problems whose positions are in the file, or both.
func FuzzParse(f *testing.F) {
	f.Add(base)
	f.Add(recipes)
	f.Add(list)
	f.Add("group: g\npackages: {a: [b], b: {build: [a, c], run: [b, d]}, d: {run: [b]}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := definition.Parse("packages.yaml", []byte(text))
		if err != nil {
			yamltest.Showable(t, err, yamltest.Lines(text))
		}
		if d == nil {
			return
		}
		_, err = plan.Make(d, nil)
		assert.NoError(t, err)
	})
}
