package definition_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/definition"
)

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
	d, err := definition.Parse("packages.yaml", []byte(text))
	require.NoError(t, err)
	require.Equal(t, "registry.example:5000/base", d.Artifacts, "it is %+v", d)
	assert.False(t, d.List, "it is %+v", d)
	glibc, maker, gcc := d.Packages[0], d.Packages[1], d.Packages[2]
	if glibc.Job != maker.Job {
		t.Error("packages without anything of their own do not share a job")
	}
	if glibc.Released != "glibc-2.28" || glibc.Have == nil || glibc.Have.Path.Text != "released/glibc" || glibc.Have.Artifact != "" {
		t.Errorf("released is %q, %+v", glibc.Released, glibc.Have)
	}
	if maker.Have == nil || maker.Have.Artifact != maker.Released || !strings.HasPrefix(maker.Released, "sha256:") {
		t.Errorf("released is %q, %+v", maker.Released, maker.Have)
	}
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
