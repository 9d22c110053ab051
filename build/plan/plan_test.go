package plan

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/definition"
)

// toolchain is gcc, which make builds, and make, which gcc builds.
func toolchain() *definition.Definition {
	return &definition.Definition{Group: "base", Converge: 2, Packages: []definition.Package{
		{Name: "glibc", Released: "glibc-1", Build: []string{"gcc", "make"}},
		{Name: "make", Released: "make-1", Build: []string{"gcc", "make"}, Run: []string{"glibc"}},
		{Name: "gcc", Released: "gcc-1", Build: []string{"gcc", "make"}, Run: []string{"glibc"}},
		{Name: "curl", Released: "curl-1", Build: []string{"gcc", "make"}, Run: []string{"glibc"}},
		{Name: "docs", Released: "docs-1"},
	}}
}

func (j Job) text() string {
	text := fmt.Sprintf("%d %s pass %d of %d with", j.Number, j.Package, j.Pass, j.Of)
	for _, u := range j.Uses {
		text += " " + u.Package + " " + u.Released
		if u.Job > 0 {
			text += fmt.Sprint("of ", u.Job)
		}
	}
	if len(j.Waits) > 0 {
		text += fmt.Sprint(" after ", j.Waits)
	}
	return text
}

func TestACycleIsUnrolled(t *testing.T) {
	p, err := Make(toolchain(), []string{"make"})
	require.NoError(t, err)
	var got []string
	for _, j := range p.Jobs {
		got = append(got, j.text())
	}
	want := []string{
		"1 glibc pass 1 of 2 with gcc gcc-1 make make-1",
		"2 make pass 1 of 2 with gcc gcc-1 make make-1 glibc of 1",
		"3 gcc pass 1 of 2 with gcc gcc-1 make of 2 glibc of 1",
		"4 glibc pass 2 of 2 with gcc of 3 make of 2",
		"5 make pass 2 of 2 with gcc of 3 make of 2 glibc of 4",
		"6 gcc pass 2 of 2 with gcc of 3 make of 5 glibc of 4",
		"7 curl pass 1 of 1 with gcc of 6 make of 5 glibc of 4",
	}
	assert.Equal(t, want, got)
}

func TestWhatCannotBeBuiltIsTold(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*definition.Definition)
		touched []string
		want    []string
	}{
		{
			name:    "a package without a plan, and what needs it",
			change:  func(d *definition.Definition) { d.Packages[0].Unbuildable = "its plan is gone" },
			touched: []string{"glibc"},
			want: []string{
				"glibc: its plan is gone", "make: it needs glibc, which cannot be built",
				"gcc: it needs glibc, which cannot be built", "curl: it needs glibc, which cannot be built",
			},
		},
		{
			name:    "packages that need each other and were never released",
			change:  func(d *definition.Definition) { d.Packages[1].Released, d.Packages[2].Released = "", "" },
			touched: []string{"curl"},
			want: []string{
				"make: make, gcc need each other, and make was never released, so none can be built first; give one that is released",
				"gcc: make, gcc need each other, and make was never released, so none can be built first; give one that is released",
				"curl: it needs make, which cannot be built",
			},
		},
		{
			name:    "one that needs itself and was never released",
			change:  func(d *definition.Definition) { d.Packages[4].Released, d.Packages[4].Build = "", []string{"docs"} },
			touched: []string{"docs"},
			want:    []string{"docs: it needs itself, and was never released; give one that is released"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := toolchain()
			c.change(d)
			p, err := Make(d, c.touched)
			require.NoError(t, err)
			var got []string
			for _, u := range p.Unbuildable {
				got = append(got, u.Package+": "+u.Cause)
			}
			require.Equal(t, c.want, got)
			assert.Empty(t, p.Jobs)
		})
	}
}

// What needs a package that is built only because it was never released was made without it.
func TestWhatNeedsNoTouchedPackageStays(t *testing.T) {
	p, err := Make(&definition.Definition{Group: "g", Converge: 2, Packages: []definition.Package{
		{Name: "x", Released: "x-1", Build: []string{"d"}}, {Name: "d"},
		{Name: "y", Released: "y-1", Build: []string{"d"}}, {Name: "z", Released: "z-1", Run: []string{"y"}},
	}}, []string{"x"})
	if err != nil || len(p.Jobs) != 2 || p.Jobs[0].Package != "d" || p.Jobs[1].Package != "x" {
		t.Errorf("%v, %+v", err, p)
	}
}

func TestTouchedPackagesMustBeThere(t *testing.T) {
	_, err := Make(toolchain(), []string{"gc", "make", "mkae", "nonsense", "gc", ""})
	want := `there is no package "gc", did you mean "gcc"?
there is no package "mkae", did you mean "make"?
there is no package "nonsense"; possible are glibc, make, gcc, curl, docs
there is no package ""; possible are glibc, make, gcc, curl, docs`
	require.Error(t, err)
	assert.Equal(t, want, err.Error())
	list := toolchain()
	list.List = true
	if _, err := Make(list, []string{"gc"}); err == nil || err.Error() != `there is no job "gc", did you mean "gcc"?` {
		t.Error(err)
	}
}

// Whoever touches a hundred thousand names that there are not gets an answer at once.
func TestManyNamesThatThereAreNot(t *testing.T) {
	d := &definition.Definition{Group: "g", Converge: 2}
	var names []string
	for i := range 100_000 {
		d.Packages = append(d.Packages, definition.Package{Name: fmt.Sprintf("package-%d", i)})
		names = append(names, fmt.Sprintf("pakcage-%d", i))
	}
	known, err := Touched(d, append(names, "package-7"))
	if err == nil || !slices.Equal(known, []string{"package-7"}) || !strings.HasSuffix(err.Error(), "and 99000 more problems") {
		t.Errorf("known are %v", known)
	}
}

// The manifest is of a real distribution: 627 packages, of which 47 need each other and
// were built three times.
func TestTheManifestOfADistributionHasTheSameJobs(t *testing.T) {
	data, err := os.ReadFile("testdata/distribution.tsv")
	require.NoError(t, err)
	ours := regexp.MustCompile(`^(.+/.+)/[^/]+/N-\d+$`)
	times, at := map[string]int{}, map[string]int{}
	d := &definition.Definition{Group: "base", Converge: 3}
	var outside []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if times[fields[0]]++; times[fields[0]] > 1 {
			continue
		}
		one := definition.Package{Name: fields[0], Released: "old"}
		if len(fields) > 2 {
			for _, need := range strings.Split(fields[2], ",") {
				name := strings.Join(strings.Split(need, "/")[:2], "/")
				if one.Build = append(one.Build, name); !ours.MatchString(need) {
					outside = append(outside, name)
				}
			}
		}
		at[one.Name] = len(d.Packages)
		d.Packages = append(d.Packages, one)
	}
	touched := make([]string, len(d.Packages))
	for i := range d.Packages {
		touched[i] = d.Packages[i].Name
	}
	for _, name := range outside {
		if _, there := at[name]; !there {
			at[name] = len(d.Packages)
			d.Packages = append(d.Packages, definition.Package{Name: name, Released: "old"})
		}
	}
	p, err := Make(d, touched)
	require.NoError(t, err)
	got := map[string]int{}
	for _, j := range p.Jobs {
		got[j.Package]++
	}
	for name, n := range times {
		assert.Equal(t, n, got[name], "%s is built", name)
	}
	assert.Len(t, p.Jobs, 721)
}
