package definition_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/build/plan"
	"github.com/deployster-go/deployster/internal/ringtest"
)

const list = `group: nightly
job: {image: busybox}
jobs:
  - {name: test, needs: [compile, fetch], timeout: 1h}
  - {name: compile, version: "2", needs: [fetch], env: {A: b}}
  - {name: fetch, network: host}
`

func TestAListOfJobsIsRead(t *testing.T) {
	d, err := definition.Parse("packages.yaml", []byte(list))
	require.NoError(t, err)
	if !d.List || d.Group != "nightly" || len(d.Packages) != 3 {
		t.Fatalf("it is %+v", d)
	}
	test, compile := d.Packages[0], d.Packages[1]
	if test.Name != "test" || test.At != at(4, 12) || !reflect.DeepEqual(test.Build, []string{"compile", "fetch"}) || test.Job.Timeout != time.Hour {
		t.Errorf("test is %+v", test)
	}
	if compile.Version != "2" || compile.Job.Image.Text != "busybox" || compile.Job.Env["A"].Text != "b" {
		t.Errorf("compile is %+v", compile)
	}
	p, err := plan.Make(d, nil)
	require.NoError(t, err)
	var order []string
	for _, j := range p.Jobs {
		order = append(order, fmt.Sprintf("%s %d/%d", j.Package, j.Pass, j.Of))
	}
	require.Equal(t, []string{"fetch 1/1", "compile 1/1", "test 1/1"}, order)
	assert.Zero(t, len(p.Unbuildable)+len(p.Cycles), "the plan is %v", order)
}

func TestWhatIsWrongWithAListIsToldAtItsPlace(t *testing.T) {
	for _, c := range []struct{ name, jobs, want string }{
		{"none", "[]", "p.yaml:2:7: jobs: a build group needs a job at least"},
		{"a mapping", "{a: {}}", "must be a list of jobs, not a mapping"},
		{"a text", "[a]", "p.yaml:2:8: jobs[0]: a job must be a mapping with name, version, needs"},
		{"no name", "[{image: a}]", "p.yaml:2:8: jobs[0]: the job has no name"},
		{"a wrong name", "[{name: ../a}]", `"../a" cannot be the name of a job`},
		{"one twice", "[{name: a}, {name: a}]", `p.yaml:2:26: jobs[1].name: duplicate job "a", first at p.yaml:2:15`},
		{"an unknown one", "[{name: fetch}, {name: b, needs: [fetsh]}]", `p.yaml:2:41: jobs[1].needs[0]: there is no job "fetsh", did you mean "fetch"?`},
		{"itself", "[{name: a, needs: [a]}]", "p.yaml:2:25: jobs[0].needs: job a cannot need itself"},
		{"each other", "[{name: a, needs: [b]}, {name: b, needs: [c]}, {name: c, needs: [a]}, {name: d, needs: [a]}]", "p.yaml:2:25: jobs[0].needs: jobs need each other, so none of them could begin: a → b → c → a; a list of jobs is not built in passes, as packages are"},
		{"what packages have", "[{name: a, released: x}]", `unknown key "released"`},
		{"passes", "[{name: a}]\nconverge: 2", "p.yaml:3:1: converge: jobs of a list are in no cycle, and have no converge"},
		{"one within the other", "[{name: a}, {name: a/b}, {name: c, needs: [a, a/b]}]", "jobs[2].needs[1]: a/b cannot be needed together with a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := definition.Parse("p.yaml", []byte("group: g\njobs: "+c.jobs))
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// large is a definition of so many packages, most of which need three others.
func large(packages int) string {
	var b strings.Builder
	b.WriteString("group: g\njob: {image: build:1, args: [make]}\npackages:\n")
	for i := range packages {
		needs := ""
		if i > 10 {
			needs = fmt.Sprintf(", build: [core/package-%d, core/package-%d, core/package-%d]", i-1, i/2, i/3)
		}
		fmt.Fprintf(&b, "  core/package-%d: {version: \"1.%d\"%s, env: {NUMBER: \"%d\"}}\n", i, i, needs, i)
	}
	return b.String()
}

func TestAHundredThousandPackagesFit(t *testing.T) {
	count := ringtest.Cases(5_000, 100_000)
	d, err := definition.Parse("p.yaml", []byte(large(count)))
	require.NoError(t, err)
	assert.Len(t, d.Packages, count)
}

func TestAFileThatIsTooLarge(t *testing.T) {
	_, err := definition.Parse("p.yaml", []byte("# "+strings.Repeat("x", definition.MaxSize)))
	assert.ErrorContains(t, err, "p.yaml: has 16777218 bytes or more; at most 16777216 (16 MiB) are possible")
}
