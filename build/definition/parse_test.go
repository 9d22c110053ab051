package definition_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/build/plan"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
	"github.com/deployster-go/deployster/schema"
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
	d := must.Get(definition.Parse("packages.yaml", []byte(base)))(t)
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
			assert.ErrorContains(t, must.Fail(definition.Parse("p.yaml", []byte(c.text))), c.want)
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

const list = `group: nightly
job: {image: busybox}
jobs:
  - {name: test, needs: [compile, fetch], timeout: 1h}
  - {name: compile, version: "2", needs: [fetch], env: {A: b}}
  - {name: fetch, network: host}
`

func TestAListOfJobsIsRead(t *testing.T) {
	d := must.Get(definition.Parse("packages.yaml", []byte(list)))(t)
	require.True(t, d.List && d.Group == "nightly" && len(d.Packages) == 3, "it is %+v", d)
	test, compile := d.Packages[0], d.Packages[1]
	assert.True(t, test.Name == "test" && test.At == at(4, 12) &&
		reflect.DeepEqual(test.Build, []string{"compile", "fetch"}) && test.Job.Timeout == time.Hour, "test is %+v", test)
	assert.True(t, compile.Version == "2" && compile.Job.Image.Text == "busybox" &&
		compile.Job.Env["A"].Text == "b", "compile is %+v", compile)
	p := must.Get(plan.Make(d, nil))(t)
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
			assert.ErrorContains(t, must.Fail(definition.Parse("p.yaml", []byte("group: g\njobs: "+c.jobs))), c.want)
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
	assert.Len(t, must.Get(definition.Parse("p.yaml", []byte(large(count))))(t).Packages, count)
}

func TestAFileThatIsTooLarge(t *testing.T) {
	_, err := definition.Parse("p.yaml", []byte("# "+strings.Repeat("x", definition.MaxSize)))
	assert.ErrorContains(t, err, "p.yaml: has 16777218 bytes or more; at most 16777216 (16 MiB) are possible")
}

// shared are parts of a job with whether they are possible, as the schemas and the parser
// must agree, but for what a schema cannot say: which names and paths are possible together.
var shared = map[string]bool{
	"image: a": true, "image: ''": false, "image: 1": false, "image: '{{ a }}'": true,
	"entrypoint: sh": true, "entrypoint: []": false,
	"args: []": true, "args: [a, '']": true, "args: a": false, "args: [1]": false, "args:": false,
	"env: {A: ''}": true, "env: {a_1: b}": true, "env: {A-B: c}": false, "env: {DEPLOYSTER_X: c}": false, "env: {A: 1}": false, "env: []": false,
	"secrets: {A: '{{ a }}'}": true, "secrets: {1A: '{{ b }}'}": false, "secrets: {A: b}": false,
	"sources: []": true, "sources: [a/b]": true, "sources: ['']": false, "sources: a": false,
	"plugs: []": true, "plugs: [{path: /a, container_path: /b}]": true, "plugs: [{path: /a, container_path: /b, read_only: true}]": true,
	"plugs: [{path: /a}]": false, "plugs: [{path: a, container_path: /b}]": false, "plugs: [{path: /a, container_path: /b, read_only: 1}]": false, "plugs: [{path: /a, container_path: /b, more: 1}]": false,
	"resources: {}": true, "resources: {memory: 512MiB, pids: 10}": true, "resources: {memory: 1GB}": false, "resources: {memory: 0GiB}": false, "resources: {pids: 0}": false, "resources: {pids: '1'}": false, "resources: {cpus: 1}": false,
	"network: none": true, "network: ''": false,
	"timeout: 30m": true, "timeout: 1h30m": true, "timeout: 5": false, "timeout: soon": false,
	"target: linux/arm/v7": true, "target: linux": false, "target: ''": false,
	"workers: name == a": true, "workers: ''": false,
	"more: 1": false, "version: '1'": true, "version: 1": false,
}

func TestTheSchemaOfPackagesAgrees(t *testing.T) {
	digest := "sha256:0123456789012345678901234567890123456789012345678901234567890123"
	cases := map[string]bool{
		base: true, recipes: false, // its entrypoint is empty
		"{group: g, packages: {a: {}}}": true, "{group: g}": false, "{packages: {a: {}}}": false, "{group: g, packages: {}}": false,
		"{group: g, packages: [a]}": false, "{group: g, packages: {a: }}": false, "{group: -g, packages: {a: {}}}": false, "{group: g, packages: {a/: {}}}": false,
		"{group: g, converge: 0, packages: {a: {}}}": false, "{group: g, converge: 10, packages: {a: {}}}": true, "{group: g, converge: 11, packages: {a: {}}}": false,
		"{group: g, target: linux/amd64, workers: name == a, artifacts: r.example/a, job: {image: a}, packages: {a: {}}}": true,
		"{group: g, target: x, packages: {a: {}}}": false, "{group: g, artifacts: r.example, packages: {a: {}}}": false, "{group: g, job: {build: []}, packages: {a: {}}}": false,
	}
	for part, possible := range shared {
		cases["{group: g, packages: {a: {"+part+"}}}"] = possible
	}
	for part, possible := range map[string]bool{
		"build: [b], run: [b]": true, "build: [b, b]": false, "build: b": false, "unbuildable: gone": true, "unbuildable: ''": false, "needs: []": false,
		"released: a": true, "released: {path: a}": true, "released: {name: n, artifact: '" + digest + "'}": true, "released: {artifact: '" + digest[1:] + "'}": false,
		"released: {}": false, "released: {name: n}": false, "released: {path: a, artifact: '" + digest + "'}": false, "released: ''": false,
	} {
		cases["{group: g, packages: {b: {}, a: {"+part+"}}}"] = possible
	}
	agrees(t, "packages", cases)
}

func TestTheSchemaOfJobsAgrees(t *testing.T) {
	cases := map[string]bool{
		list: true, "{group: g, jobs: [{name: a}]}": true, "{group: g, jobs: []}": false, "{group: g, jobs: {a: {}}}": false, "{group: g, jobs: [{}]}": false, "{group: g, jobs: [a]}": false,
		"{group: g, converge: 2, jobs: [{name: a}]}": false, "{group: g, jobs: [{name: a/}]}": false, "{jobs: [{name: a}]}": false,
		"{group: g, jobs: [{name: a}, {name: b, needs: [a]}]}": true, "{group: g, jobs: [{name: a}, {name: b, needs: a}]}": false, "{group: g, jobs: [{name: a, released: x}]}": false,
		"{group: g, target: linux/amd64, workers: name == a, artifacts: r.example/a, job: {image: a}, jobs: [{name: a}]}": true,
	}
	for part, possible := range shared {
		cases["{group: g, jobs: [{name: a, "+part+"}]}"] = possible
	}
	agrees(t, "jobs", cases)
}

func agrees(t *testing.T, name string, cases map[string]bool) {
	source := must.Get(schema.Source(name))(t)
	yamltest.Schema(t, source, cases, func(file string) error {
		_, err := definition.Parse("p.yaml", []byte(file))
		return err
	})
}

func TestExamplesAreWhatTheSchemasSay(t *testing.T) {
	for _, name := range []string{"packages", "jobs"} {
		paths, err := filepath.Glob("../../examples/*/" + name + ".yaml")
		require.NoError(t, err, "there are no examples of %s: %v", name, err)
		require.NotEmpty(t, paths, "there are no examples of %s: %v", name, err)
		cases := map[string]bool{}
		for _, path := range paths {
			text := must.Get(os.ReadFile(path))(t)
			cases[string(text)] = true
		}
		agrees(t, name, cases)
	}
}

const recipes = `group: base
target: linux/amd64
workers: "attribute:role == builder"
artifacts: registry.example:5000/base
job:
  image: build-base:1
  entrypoint: sh
  args: [-c, make]
  env: {CFLAGS: -O2, JOBS: "4"}
  secrets: {TOKEN: "{{ token }}"}
  sources: [scripts]
  resources: {memory: 512MiB, pids: 100}
  network: none
  timeout: 30m
packages:
  glibc: {released: {name: glibc-2.28, path: released/glibc}}
  make: {released: {artifact: "sha256:0123456789012345678901234567890123456789012345678901234567890123"}, build: [glibc]}
  gcc:
    image: "{{ registry }}/gcc-build"
    entrypoint: ""
    args: []
    env: {CFLAGS: "", LANG: C}
    sources: [./gcc/, scripts]
    plugs: [{path: /var/cache/ccache, container_path: /ccache/, read_only: true}]
    resources: {memory: 2GiB}
    target: linux/arm64
    workers: name == big
`

func TestWhatPackagesRunIsRead(t *testing.T) {
	text := strings.Replace(recipes, "    entrypoint: \"\"\n", "", 1)
	d := must.Get(definition.Parse("packages.yaml", []byte(text)))(t)
	require.Equal(t, "registry.example:5000/base", d.Artifacts, "it is %+v", d)
	assert.False(t, d.List, "it is %+v", d)
	glibc, maker, gcc := d.Packages[0], d.Packages[1], d.Packages[2]
	assert.True(t, glibc.Job == maker.Job, "packages without anything of their own do not share a job")
	assert.True(t, glibc.Released == "glibc-2.28" && glibc.Have != nil && glibc.Have.Path.Text == "released/glibc" &&
		glibc.Have.Artifact == "", "released is %q, %+v", glibc.Released, glibc.Have)
	assert.True(t, maker.Have != nil && maker.Have.Artifact == maker.Released &&
		strings.HasPrefix(maker.Released, "sha256:"), "released is %q, %+v", maker.Released, maker.Have)
	all := definition.Job{
		Image: definition.Value{Text: "build-base:1", At: at(6, 10)}, Entrypoint: definition.Value{Text: "sh", At: at(7, 15)},
		Args:    []definition.Value{{Text: "-c", At: at(8, 10)}, {Text: "make", At: at(8, 14)}},
		Env:     map[string]definition.Value{"CFLAGS": {Text: "-O2", At: at(9, 17)}, "JOBS": {Text: "4", At: at(9, 28)}},
		Secrets: map[string]definition.Value{"TOKEN": {Text: "{{ token }}", At: at(10, 20)}},
		Sources: []definition.Value{{Text: "scripts", At: at(11, 13)}},
		Memory:  512 << 20, Pids: 100, Network: "none", Timeout: 30 * time.Minute,
		Target: definition.Value{Text: "linux/amd64", At: at(2, 9)}, Workers: definition.Value{Text: "attribute:role == builder", At: at(3, 10)},
	}
	assert.Equal(t, all, *glibc.Job)
	own := all
	own.Image = definition.Value{Text: "{{ registry }}/gcc-build", At: at(19, 12)}
	own.Args = []definition.Value{}
	own.Env = map[string]definition.Value{"CFLAGS": {At: at(21, 19)}, "JOBS": all.Env["JOBS"], "LANG": {Text: "C", At: at(21, 29)}}
	own.Sources = []definition.Value{{Text: "gcc", At: at(22, 15)}, {Text: "scripts", At: at(22, 23)}}
	own.Plugs = []definition.Plug{{Path: "/var/cache/ccache", ContainerPath: "/ccache", ReadOnly: true}}
	own.Memory = 2 << 30
	own.Target = definition.Value{Text: "linux/arm64", At: at(25, 13)}
	own.Workers = definition.Value{Text: "name == big", At: at(26, 14)}
	assert.Equal(t, own, *gcc.Job)
}

func TestWhatIsWrongWithAJobIsToldAtItsPlace(t *testing.T) {
	for _, c := range []struct{ name, job, want string }{
		{"no image", `image: ""`, "p.yaml:2:23: packages.a.image: must be an image, not empty"},
		{"an image with spaces", `image: a b`, `"a b" is not an image: its name has no spaces`},
		{"a type that ships", `image: deployster/file`, `"deployster/file" is a resource type that ships, and no image that a job could run`},
		{"an unknown key", `iamge: a`, `unknown key "iamge", did you mean "image"?`},
		{"args as a text", `args: make`, "must be a list of arguments, not text"},
		{"an argument that is a number", `args: [1]`, `packages.a.args[0]: must be a text, not an integer: write it as "1"`},
		{"a NUL", `args: ["a\0"]`, "must not contain a NUL character"},
		{"env as a list", `env: [A=b]`, "must be a mapping of names to texts, not a list"},
		{"a number", `env: {A: 1}`, `packages.a.env.A: must be a text, not an integer: write it as "1"`},
		{"a name that is none", `env: {A-B: x}`, `"A-B" cannot be the name of a variable of the environment`},
		{"what a job is told", `env: {DEPLOYSTER_OUT: x}`, `"DEPLOYSTER_OUT" cannot be set`},
		{"one twice", `env: {A: x}, secrets: {A: "{{ y }}"}`, "the variable A is in env, at p.yaml:2:25, and in secrets, at p.yaml:2:42; one of them is enough"},
		{"a secret that is none", `secrets: {A: swordfish}`, `packages.a.secrets.A: is written down here for all to read: keep it in a file of variables, and name that, as in "{{ token }}"`},
		{"sources elsewhere", `sources: [../x]`, `packages.a.sources[0]: "../x" leaves the workspace; sources lie below it`},
		{"sources that climb", `sources: [a/../../x]`, `"a/../../x" leaves the workspace`},
		{"absolute sources", `sources: [/etc]`, `"/etc" is not below the workspace`},
		{"all of the workspace", `sources: [a/..]`, `"a/.." is all of the workspace`},
		{"our own files", `sources: [.deployster/objects]`, `".deployster/objects" is what Deployster keeps`},
		{"a source twice", `sources: [a, ./a]`, `duplicate source "a"`},
		{"a plug without a path", `plugs: [{container_path: /a}]`, "the plug has no path"},
		{"a plug without a place", `plugs: [{path: /a}]`, "the plug has no container_path"},
		{"a relative plug", `plugs: [{path: a, container_path: /a}]`, `"a" must be an absolute path`},
		{"a plug over everything", `plugs: [{path: /a, container_path: /}]`, "/ cannot be the place of a plug"},
		{"a plug over ours", `plugs: [{path: /a, container_path: /var/lib/deployster/out}]`, "cannot be the place of a plug: what a job is given is at /var/lib/deployster"},
		{"a plug around ours", `plugs: [{path: /a, container_path: /var/./lib}]`, "/var/lib cannot be the place of a plug"},
		{"two plugs at a place", `plugs: [{path: /a, container_path: /x}, {path: /b, container_path: /x/}]`, "packages.a.plugs[1].container_path: there is another plug at /x"},
		{"a plug that may be", `plugs: [{path: /a, container_path: /x, read_only: maybe}]`, "must be true or false"},
		{"no memory", `resources: {memory: 1}`, "must be a size such as 512MiB or 2GiB, not an integer"},
		{"little memory", `resources: {memory: 5MiB}`, `of at least 6MiB, not "5MiB"`},
		{"much memory", `resources: {memory: 999999999GiB}`, "must be a size such as"},
		{"no processes", `resources: {pids: 0}`, "must be a number of processes and threads from 1 to 4194304, not 0"},
		{"no time", `timeout: 0`, "packages.a.timeout: must be from 1s to 168h, not 0"},
		{"negative time", `timeout: -5m`, "must be from 1s to 168h, not -5m"},
		{"a time without unit", `timeout: 30`, "30 has no unit"},
		{"no platform", `target: amd64`, `packages.a.target: "amd64" is not a platform, as linux/amd64 or linux/arm/v7 are`},
		{"no query", `workers: role = x`, "packages.a.workers: cannot select workers: "},
		{"nothing released", `released: {}`, "what is released needs a path, a directory of the workspace, or the digest of an artifact"},
		{"released twice", `released: {path: a, artifact: b}`, "what is released has a path or an artifact, not both"},
		{"a digest that is none", `released: {artifact: "sha256:0"}`, `"sha256:0" is not the digest of an artifact`},
		{"released elsewhere", `released: {path: ../a}`, `"../a" leaves the workspace`},
		{"one within the other", "build: [b], run: [b/c]", "packages.a.run[0]: b/c cannot be needed together with b: a job finds what it needs by its name, and one would lie within the other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := definition.Parse("p.yaml", []byte("group: g\npackages: {a: {"+c.job+"}, b: {}, b/c: {}}"))
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestWhatIsWrongWithTheDefaultsIsToldOnce(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a job", "job: {timeout: 0}", "p.yaml:1:16: job.timeout: must be from 1s to 168h, not 0"},
		{"no mapping", "job: []", "the job of all packages must be a mapping with image, entrypoint"},
		{"a repository with a tag", "artifacts: registry.example/a:1", `"registry.example/a:1" is no repository`},
		{"a registry alone", "artifacts: registry.example", "is no repository"},
		{"a target in two places", "target: linux/amd64\njob: {target: linux/arm64}", "p.yaml:1:1: target: target is also in job, at p.yaml:2:15; one of them is enough"},
		{"one of the environment in two places", "job: {env: {A: a}}\nmore: 1", `unknown key "more"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := definition.Parse("p.yaml", []byte(c.text+"\ngroup: g\npackages: {a: {image: x}, b: {env: {B: b}}}"))
			require.ErrorContains(t, err, c.want)
			assert.Zero(t, strings.Count(err.Error(), "\n"))
		})
	}
}
