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
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/internal/must"
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
	p := must.Get(Make(toolchain(), []string{"make"}))(t)
	var got []string
	for _, j := range p.Jobs {
		got = append(got, j.text())
	}
	assert.Equal(t, []string{
		"1 glibc pass 1 of 2 with gcc gcc-1 make make-1",
		"2 make pass 1 of 2 with gcc gcc-1 make make-1 glibc of 1",
		"3 gcc pass 1 of 2 with gcc gcc-1 make of 2 glibc of 1",
		"4 glibc pass 2 of 2 with gcc of 3 make of 2",
		"5 make pass 2 of 2 with gcc of 3 make of 2 glibc of 4",
		"6 gcc pass 2 of 2 with gcc of 3 make of 5 glibc of 4",
		"7 curl pass 1 of 1 with gcc of 6 make of 5 glibc of 4",
	}, got)
}

func TestWhatCannotBeBuiltIsTold(t *testing.T) {
	for _, c := range []struct {
		name          string
		change        func(*definition.Definition)
		touched, want []string
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
			p := must.Get(Make(d, c.touched))(t)
			var got []string
			for _, u := range p.Unbuildable {
				got = append(got, u.Package+": "+u.Cause)
			}
			require.Equal(t, c.want, got)
			assert.Empty(t, p.Jobs)
		})
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
	assert.EqualError(t, must.Fail(Make(list, []string{"gc"})), `there is no job "gc", did you mean "gcc"?`)
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
	assert.True(t, err != nil && slices.Equal(known, []string{"package-7"}) &&
		strings.HasSuffix(err.Error(), "and 99000 more problems"), "known are %v", known)
}

// The manifest is of a real distribution: 627 packages, of which 47 need each other and were built three times.
func TestTheManifestOfADistributionHasTheSameJobs(t *testing.T) {
	data := must.Get(os.ReadFile("testdata/distribution.tsv"))(t)
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
	p := must.Get(Make(d, touched))(t)
	got := map[string]int{}
	for _, j := range p.Jobs {
		got[j.Package]++
	}
	for name, n := range times {
		assert.Equal(t, n, got[name], "%s is built", name)
	}
	assert.Len(t, p.Jobs, 721)
}

var someNames = []string{"a", "b", "c", "d", "e", "f"}

func drawDefinition(t *rapid.T) *definition.Definition {
	n := func(limit int, label string) int { return rapid.IntRange(0, limit-1).Draw(t, label) }
	d := &definition.Definition{Group: "g", Converge: 1 + n(3, "converge")}
	count := 1 + n(len(someNames), "packages")
	for i := range count {
		p := definition.Package{Name: someNames[i], Version: "1"}
		if n(4, "never released") > 0 {
			p.Released = "old-" + p.Name
		}
		if n(12, "cannot be built") == 0 {
			p.Unbuildable = "no plan"
		}
		for j := range count {
			if n(4, "builds with") == 0 {
				p.Build = append(p.Build, someNames[j])
			}
			if j < i && n(5, "runs with") == 0 { // never in a circle
				p.Run = append(p.Run, someNames[j])
			}
		}
		d.Packages = append(d.Packages, p)
	}
	return d
}

// naive is what can be said of a plan without making one.
type naive struct {
	*definition.Definition
	needs map[string]map[string]bool // whether also to run
}

func newNaive(d *definition.Definition) *naive {
	o := &naive{d, map[string]map[string]bool{}}
	for _, p := range d.Packages {
		o.needs[p.Name] = map[string]bool{}
		for _, need := range p.Build {
			o.needs[p.Name][need] = false
		}
		for _, need := range p.Run {
			o.needs[p.Name][need] = true
		}
	}
	return o
}

func (o *naive) pkg(name string) definition.Package {
	return o.Packages[slices.IndexFunc(o.Packages, func(p definition.Package) bool { return p.Name == name })]
}

// rebuilt grows the touched packages by what needs one of them, and then by what is needed
// and was never released, until nothing is added.
func (o *naive) rebuilt(touched []string) map[string]bool {
	all := map[string]bool{}
	for _, p := range o.Packages {
		all[p.Name] = len(touched) == 0 || slices.Contains(touched, p.Name)
	}
	grow := func(add func(p definition.Package, need string) (name string, is bool)) {
		for grown := true; grown; {
			grown = false
			for _, p := range o.Packages {
				for need := range o.needs[p.Name] {
					if name, is := add(p, need); is && !all[name] {
						all[name], grown = true, true
					}
				}
			}
		}
	}
	grow(func(p definition.Package, need string) (string, bool) { return p.Name, all[need] })
	grow(func(p definition.Package, need string) (string, bool) {
		return need, all[p.Name] && o.pkg(need).Released == ""
	})
	return all
}

// buildable drops from what is rebuilt what is marked, what needs what was dropped, and what cannot be begun: building
// one after the other whatever has all that it needs never comes to it.
func (o *naive) buildable(all map[string]bool) map[string]bool {
	can := map[string]bool{}
	for _, p := range o.Packages {
		can[p.Name] = all[p.Name] && p.Unbuildable == ""
	}
	for {
		dropped := false
		for name := range can {
			for need := range o.needs[name] {
				if can[name] && all[need] && !can[need] {
					can[name], dropped = false, true
				}
			}
		}
		done := o.begun(can)
		for name := range can {
			if can[name] && !done[name] {
				can[name], dropped = false, true
			}
		}
		if !dropped {
			return can
		}
	}
}

// begun are those of packages that can be built one after the other: each with what it needs
// that is built before, or was released, and nothing that it runs with is still to be built.
func (o *naive) begun(can map[string]bool) map[string]bool {
	done := map[string]bool{}
	for more := true; more; {
		more = false
		for name := range can {
			ok := can[name] && !done[name]
			for need, run := range o.needs[name] {
				if can[need] && !done[need] && (o.pkg(need).Released == "" || run) {
					ok = false
				}
			}
			if ok {
				done[name], more = true, true
			}
		}
	}
	return done
}

// reaches reports whether a package needs another, directly or not, over what is built.
func (o *naive) reaches(from, to string, can map[string]bool) bool {
	seen := map[string]bool{}
	var visit func(string) bool
	visit = func(name string) bool {
		for need := range o.needs[name] {
			if need == to {
				return true
			}
			if can[need] && !seen[need] {
				seen[need] = true
				if visit(need) {
					return true
				}
			}
		}
		return false
	}
	return visit(from)
}

func TestAPlanIsWhatANaiveLookAtTheGraphSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDefinition(t)
		var touched []string
		for _, p := range d.Packages {
			if rapid.IntRange(0, 3).Draw(t, "touched") == 0 {
				touched = append(touched, p.Name)
			}
		}
		made := must.Get(Make(d, touched))(t)
		again, _ := Make(d, touched)
		require.Equal(t, fmt.Sprint(made), fmt.Sprint(again), "once %v, then %v", made, again)
		o := newNaive(d)
		all := o.rebuilt(touched)
		can := o.buildable(all)
		count := map[string]int{}
		for i, j := range made.Jobs {
			count[j.Package]++
			require.True(t, j.Number == i+1 && j.Pass == count[j.Package], "job %d is %+v", i+1, j)
			checkUses(t, o, made, j, can)
		}
		for _, p := range d.Packages {
			want := 0
			if can[p.Name] {
				want = 1
			}
			if can[p.Name] && o.reaches(p.Name, p.Name, can) {
				want = d.Converge
			}
			require.Equal(t, want, count[p.Name], "%s is built", p.Name)
			told := slices.ContainsFunc(made.Unbuildable, func(u Unbuildable) bool { return u.Package == p.Name })
			require.Equal(t, (all[p.Name] && !can[p.Name]), told, "%s is told as unbuildable: %t", p.Name, told)
		}
	})
}

// checkUses holds that a job uses of each package that it needs what was made last before
// it, and of what it needs to run that of its own pass.
func checkUses(t *rapid.T, o *naive, made *Plan, j Job, can map[string]bool) {
	require.Len(t, j.Uses, len(o.needs[j.Package]), "%+v does not use each", j)
	for _, u := range j.Uses {
		run, needed := o.needs[j.Package][u.Package]
		last := 0
		for _, k := range made.Jobs[:j.Number-1] {
			if k.Package == u.Package {
				last = k.Number
			}
		}
		want := Use{Package: u.Package, Job: last, Run: run}
		if last == 0 {
			want.Released = o.pkg(u.Package).Released
		}
		require.True(t, needed && u == want && (last != 0 || want.Released != ""), "%+v uses %+v; made last is %d", j, u, last)
		if can[u.Package] && run && last > 0 && j.Of > 1 && made.Jobs[last-1].Of > 1 &&
			o.reaches(u.Package, j.Package, can) && made.Jobs[last-1].Pass != j.Pass {
			t.Fatalf("%+v runs with an occurrence of another pass: %+v", j, u)
		}
	}
	checkWaits(t, made, j)
}

func checkWaits(t *rapid.T, made *Plan, j Job) {
	before := j.Number
	for before--; before > 0 && made.Jobs[before-1].Package != j.Package; before-- {
	}
	waits := reachable(made, j)
	for _, k := range made.Jobs[:j.Number-1] {
		for _, u := range k.Uses {
			if u.Package == j.Package && u.Job == before && !waits[k.Number] {
				t.Fatalf("%+v does not wait for %+v, which uses what it replaces", j, k)
			}
		}
	}
}

func reachable(made *Plan, j Job) map[int]bool {
	seen := map[int]bool{}
	var visit func(Job)
	visit = func(j Job) {
		next := slices.Clone(j.Waits)
		for _, u := range j.Uses {
			next = append(next, u.Job)
		}
		for _, n := range next {
			if n > 0 && !seen[n] {
				seen[n] = true
				visit(made.Jobs[n-1])
			}
		}
	}
	visit(j)
	return seen
}
