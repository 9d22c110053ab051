package submission_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/submission"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/contents"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/manifest/vars"
)

const toolchain = `group: base
artifacts: registry.example/base
job:
  image: "{{ image }}"
  args: [sh, "plans/{{ package.name }}/build", "{{ package.version }}"]
  sources: ["plans/{{ package.name }}"]
  secrets: {TOKEN: "Bearer {{ token }}"}
  timeout: 30m
packages:
  glibc: {version: "2.29", released: {path: released/glibc}, build: [gcc, make]}
  make: {version: "4.3", released: make-4.2, build: [gcc, make], run: [glibc]}
  gcc: {version: "9.1", released: gcc-8.2, build: [gcc, make], run: [glibc], env: {CFLAGS: "{{ flags }}", JOBS: "4"}, entrypoint: /bin/env}
`

func plans() map[string]string {
	return map[string]string{
		"plans/gcc/build": "gcc", "plans/make/build": "make", "plans/glibc/build": "glibc", "released/glibc/lib/libc.so": "old",
		"vars.auto.yaml": "image: build:1\nflags: -O2\nsecret: swordfish\ntoken: \"{{ secret }}\"\n",
	}
}

func TestAGroupCarriesWhatItsJobsRun(t *testing.T) {
	w := newWorld(t, plans())
	got := w.collected(toolchain, "make")
	c := got.Submit
	var jobs []string
	for _, j := range c.Jobs {
		jobs = append(jobs, j.Package)
	}
	require.Equal(t, []string{"glibc", "make", "gcc", "glibc", "make", "gcc"}, jobs)
	assert.True(t, c.Name == "base" && c.File == "packages.yaml" && c.Converge == 2 &&
		c.Artifacts == "registry.example/base" && reflect.DeepEqual(c.Touched, []string{"make"}), "it is %+v", c.Triggered)
	assert.True(t, reflect.DeepEqual(c.Places, []record.Place{{Platform: "linux/amd64"}}) && len(c.Cycles) == 1 &&
		len(c.Unbuildable) == 0, "places %v, cycles %v, unbuildable %v", c.Places, c.Cycles, c.Unbuildable)
	for name, text := range got.Files {
		assert.NotContains(t, string(text), "swordfish", "%s holds a secret:\n%s", name, text)
	}
	require.Equal(t, toolchain, string(got.Files["packages.yaml"]), "it carries %v", c.Carries)
	assert.Equal(t, got.Files.Digests(), map[string]string(c.Carries), "it carries %v", c.Carries)
}

func TestEveryPassOfAPackageRunsTheSame(t *testing.T) {
	w := newWorld(t, plans())
	got := w.collected(toolchain, "make")
	first, second := got.Submit.Jobs[2], got.Submit.Jobs[5]
	assert.True(t, first.Pass == 1 && first.Of == 2 && first.Version == "9.1" && first.Recipe == second.Recipe &&
		second.Pass == 2, "gcc is %+v, and %+v", first, second)
	r := w.recipe(got, 3)
	artifact := r.Artifact
	r.Artifact = ""
	assert.Equal(t, recipe.Recipe{
		Image: recipe.Image{Image: "build:1", ID: image("aa").ID}, Entrypoint: "/bin/env", Args: []string{"sh", "plans/gcc/build", "9.1"},
		Env: map[string]string{"CFLAGS": "-O2", "JOBS": "4"}, Secrets: map[string]recipe.Secret{"TOKEN": {Value: "Bearer {{ token }}"}},
		Sources: []recipe.Source{{Path: "plans/gcc"}}, Timeout: 30 * time.Minute,
	}, r)
	dir := must.Get(w.store.Directory(context.Background(), artifact))(t)
	assert.Equal(t, "gcc", string(must.Get(os.ReadFile(filepath.Join(dir, "plans/gcc/build")))(t)))
	assert.Equal(t, []string{"build:1"}, w.asked)
}

func TestWhatWasReleasedIsAnArtifact(t *testing.T) {
	w := newWorld(t, map[string]string{"libc/lib/libc.so": "old"})
	text := "group: g\njob: {image: \"build:1\"}\npackages:\n  libc: {released: {path: libc}}\n  gcc: {released: gcc-8}\n  app: {build: [libc, gcc]}\n"
	uses := w.collected(text, "app").Submit.Jobs[0].Uses
	require.True(t, len(uses) == 2 && uses[1] == (record.Use{Package: "gcc"}) &&
		strings.HasPrefix(uses[0].Artifact, "sha256:"), "it uses %+v", uses)
	dir := must.Get(w.store.Directory(context.Background(), uses[0].Artifact))(t)
	assert.Equal(t, "old", string(must.Get(os.ReadFile(filepath.Join(dir, "lib/libc.so")))(t)))
	named := strings.Replace(text, "{path: libc}", "{artifact: \""+uses[0].Artifact+"\"}", 1)
	assert.Equal(t, uses[0], w.collected(named, "app").Submit.Jobs[0].Uses[0])
	if all := w.collected(text).Submit.Jobs; len(all[2].Uses) != 2 || all[2].Uses[0].Artifact != "" || all[2].Uses[0].Job == 0 {
		t.Errorf("what is built again is not used: %+v", all[2].Uses)
	}
}

func TestInputsAreThoseOfTheWorkspace(t *testing.T) {
	base := func(w *world) []record.JobSpec { return w.collected(toolchain).Submit.Jobs }
	before := base(newWorld(t, plans()))
	for name, c := range map[string]struct {
		change func(w *world)
		text   [2]string
		differ []string // packages
	}{
		"nothing":                {func(*world) {}, [2]string{}, nil},
		"what the sources hold":  {func(w *world) { w.write("plans/gcc/build", "other") }, [2]string{}, []string{"gcc"}},
		"another source":         {func(w *world) { w.write("plans/make/patch", "p") }, [2]string{}, []string{"make"}},
		"files that no job uses": {func(w *world) { w.write("plans/README", "p") }, [2]string{}, nil},
		"a variable":             {func(w *world) { w.variable = []vars.Flag{{Name: "flags", Value: "-O3"}} }, [2]string{}, []string{"gcc"}},
		"a moved image":          {func(w *world) { w.images["build:1"] = image("cc") }, [2]string{}, []string{"glibc", "make", "gcc"}},
		"an equal image":         {func(w *world) { w.images["build:3"] = image("aa") }, [2]string{`image: "{{ image }}"`, `image: build:3`}, nil},
		"the value of a secret": {func(w *world) {
			w.write("vars.auto.yaml", strings.Replace(plans()["vars.auto.yaml"], "swordfish", "trout", 1))
		}, [2]string{}, nil},
		"what is a secret": {func(*world) {}, [2]string{"Bearer ", "Basic "}, []string{"glibc", "make", "gcc"}},
		"a version":        {func(*world) {}, [2]string{`"9.1"`, `"9.2"`}, []string{"gcc"}},
		"bounds":           {func(*world) {}, [2]string{"timeout: 30m", "timeout: 1h\n  resources: {memory: 1GiB, pids: 100}"}, nil},
		"which workers":    {func(*world) {}, [2]string{"timeout: 30m", "workers: name == local"}, nil},
		"the platform":     {func(w *world) { w.builds["local"] = []string{"linux/arm64"} }, [2]string{}, []string{"glibc", "make", "gcc"}},
		"the network":      {func(*world) {}, [2]string{"timeout: 30m", "network: none"}, []string{"glibc", "make", "gcc"}},
		"comments":         {func(*world) {}, [2]string{"packages:", "# all of them\npackages:"}, nil},
		"what it needs":    {func(*world) {}, [2]string{`"4.3", released: make-4.2, build: [gcc, make]`, `"4.3", released: make-4.2, build: [gcc]`}, []string{"make"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plans())
			c.change(w)
			text := toolchain
			if c.text[0] != "" {
				text = strings.Replace(toolchain, c.text[0], c.text[1], 1)
			}
			var differ []string
			for _, j := range w.collected(text).Submit.Jobs {
				same := slices.ContainsFunc(before, func(b record.JobSpec) bool { return b.Package == j.Package && b.Inputs == j.Inputs })
				if !same && !slices.Contains(differ, j.Package) {
					differ = append(differ, j.Package)
				}
			}
			slices.Sort(differ)
			slices.Sort(c.differ)
			assert.Equal(t, c.differ, differ)
		})
	}
}

func TestWhatIsWrongIsRefusedInOneGo(t *testing.T) {
	for _, c := range []struct{ name, job, want string }{
		{"no image", "", "packages.yaml:2:12: packages.a: it runs no image; give it one, or give one to all of them in job"},
		{"an undefined variable", `image: "{{ iamge }}"`, `packages.yaml:2:23: packages.a.image: `},
		{"an image that is none", `image: "{{ flags }} x"`, `packages.a.image: "-O2 x" is not an image`},
		{"a type that ships", `image: "{{ 'deployster/' ~ 'file' }}"`, `"deployster/file" is a resource type that ships`},
		{"an unknown image", `image: nosuch:1`, `packages.yaml:2:23: packages.a.image: which content image nosuch:1 has for linux/amd64 cannot be found out: image nosuch:1: `},
		{"what to do about it", `image: nosuch:1`, `make it available, or say --allow-unpinned to use whatever it is on each worker`},
		{"a list", `image: build:1, args: ["{{ [1] }}"]`, "packages.a.args[0]: it comes to a list and must be a text"},
		{"a NUL", `image: build:1, env: {A: "{{ '\\x00' }}"}`, "packages.a.env.A: it comes to a text with a NUL character"},
		{"a large value", `image: build:1, env: {A: "{{ 'x' * 200000 }}"}`, "it comes to 200000 bytes; at most 131072 are possible"},
		{"sources that leave", `image: build:1, sources: ["{{ '..' }}/x"]`, `packages.a.sources[0]: "../x" leaves the workspace`},
		{"a secret that is shown", `image: build:1, env: {A: "{{ secret }}"}, secrets: {B: "{{ secret }}"}`, "packages.yaml:2:41: packages.a.env.A: reads secret, which is secret: it would be shown with the group; give it under secrets, or say --allow-logged secret where it is no secret"},
		{"a secret of a secret", `image: build:1, env: {A: "{{ token }}"}, secrets: {B: "{{ secret }}"}`, "packages.a.env.A: reads token, which reads secret, which is secret: it would be shown with the group; give it under secrets, or say --allow-logged secret where"},
		{"a secret among all", `image: build:1, args: ["{{ self ~ token }}"], secrets: {B: "{{ token }}"}`, "packages.a.args[0]: reads "},
		{"a syntax error", `image: "{{ }"`, "packages.yaml:2:23: packages.a.image: "},
		{"a secret that is undefined", `image: build:1, secrets: {B: "{{ tokn }}"}`, "packages.a.secrets.B: "},
		{"a file that is not there", `image: build:1, args: ["{% include 'nowhere.txt' %}"]`, "packages.a.args[0]: "},
		{"what was released elsewhere", `image: build:1}, b: {image: build:1, build: [c]}, c: {released: {path: "{{ '/etc' }}"}`, `packages.c.released.path: "/etc" is not below the workspace`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, plans())
			_, err := w.collect("group: g\npackages: {a: {"+c.job+"}}", map[bool][]string{true: {"b"}}[strings.Contains(c.job, " b: ")]...)
			var invalid *work.InputError
			require.ErrorAs(t, err, &invalid)
			assert.ErrorContains(t, err, c.want)
		})
	}
	w := newWorld(t, plans())
	_, err := w.collect("group: g\njob: {args: [\"{{ nope }}\"]}\npackages:\n  a: {image: build:1}\n  b: {}\n  c: {image: build:1, env: {X: \"{{ nix }}\"}}\n")
	assert.True(t, err != nil && strings.Count(err.Error(), "\n") == 2 && strings.Count(err.Error(), "nope") == 1, "the error is %v", err)
}

func TestASecretOfACommandLineIsRefusedAtItsPlace(t *testing.T) {
	w := newWorld(t, plans())
	w.variable = []vars.Flag{{Name: "secret", Value: "trout"}}
	_, err := w.collect(toolchain)
	assert.ErrorContains(t, err, "packages.yaml:7:20: packages.glibc.secrets.TOKEN: is secret and reads --var secret")
	w.Public = []string{"secret"}
	assert.Contains(t, string(w.collected(toolchain).Files["/variables"]), "trout", "what is no secret is not carried")
}

func TestSecretsAreWhatTheyWere(t *testing.T) {
	w := newWorld(t, plans())
	text := strings.Replace(toolchain, "Bearer {{ token }}", "{{ package.name }} {{ package.version }} {{ token }}", 1)
	c := w.collected(text)
	require.NoError(t, w.Texts.KeepAll(c.Files))
	resolve := func() (map[string]string, error) {
		return submission.Secrets(w.Inputs, w.Texts, c.Submit.Carries, w.recipe(c, 3))
	}
	w.write("vars.auto.yaml", strings.Replace(plans()["vars.auto.yaml"], "-O2", "-O3", 1)) // which is no secret
	got, err := resolve()
	require.NoError(t, err, "they are %v, %v", got, err)
	assert.Equal(t, map[string]string{"TOKEN": "gcc 9.1 swordfish"}, got)
	w.write("vars.auto.yaml", strings.Replace(plans()["vars.auto.yaml"], "swordfish", "trout", 1))
	if _, err := resolve(); err == nil || !strings.Contains(err.Error(), "it has another value") || strings.Contains(err.Error(), "trout") {
		t.Errorf("the error is %v", err)
	}
}

func TestWhatCannotBeBuiltIsReportedAndTheRestIsBuilt(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		prepare          func(w *world) error
	}{
		{"a source is missing", "sources: [gone]", "its sources: there is no gone in the workspace", nil},
		{"a source is a pipe", "sources: [pipe]", "its sources: pipe is no file and no directory", func(w *world) error { return syscall.Mkfifo(filepath.Join(w.dir, "pipe"), 0o600) }},
		{"a pipe is in a source", "sources: [d]", "its sources: d/pipe is no file, link or directory", func(w *world) error {
			return errors.Join(os.Mkdir(filepath.Join(w.dir, "d"), 0o700), syscall.Mkfifo(filepath.Join(w.dir, "d/pipe"), 0o600))
		}},
		{"a source leads out of the workspace", "sources: [out]", "its sources: out cannot be read: path escapes", func(w *world) error { return os.Symlink("/etc", filepath.Join(w.dir, "out")) }},
		{"a link leads out of the sources", "sources: [d]", `its sources: "d/passwd" is a link to "/etc/passwd"`, func(w *world) error {
			return errors.Join(os.Mkdir(filepath.Join(w.dir, "d"), 0o700), os.Symlink("/etc/passwd", filepath.Join(w.dir, "d/passwd")))
		}},
		{"what was released is missing", "build: [lib]", "it needs what was released of lib: there is no lib in the workspace", nil},
		{"what was released is a file", "build: [lib]", "it needs what was released of lib: lib is no directory", func(w *world) error { return os.WriteFile(filepath.Join(w.dir, "lib"), nil, 0o600) }},
		{"an artifact is not here", "build: [old]", "it needs what was released of old: artifact sha256:00", nil},
		{"it says so", "unbuildable: its plan is gone", "its plan is gone", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			if c.prepare != nil {
				require.NoError(t, c.prepare(w))
			}
			got := w.collected("group: g\njob: {image: build:1}\npackages:\n  lib: {released: {path: lib}}\n  old: {released: {artifact: \"sha256:"+strings.Repeat("00", 32)+"\"}}\n  a: {"+c.text+"}\n  b: {build: [a]}\n  c: {}\n", "a", "c").Submit
			require.True(t, len(got.Jobs) == 1 && got.Jobs[0].Package == "c" &&
				len(got.Unbuildable) == 2, "jobs %v, unbuildable %v", got.Jobs, got.Unbuildable)
			if u := got.Unbuildable[0]; u.Package != "a" || !strings.Contains(u.Cause, c.want) || got.Unbuildable[1].Needs != "a" {
				t.Errorf("unbuildable are %+v", got.Unbuildable)
			}
			left, err := filepath.Glob(filepath.Join(w.dir, ".deployster/sources-*"))
			require.NoError(t, err, "it leaves %v", left)
			assert.Empty(t, left)
		})
	}
}

// Sources of one package are one artifact, whatever order they are in; a directory of our own among them is left out.
func TestSourcesAreKeptOnce(t *testing.T) {
	w := newWorld(t, map[string]string{"a/x": "1", "a/.deployster/secret": "2", "b": "3"})
	require.NoError(t, os.Symlink("x", filepath.Join(w.dir, "a/link")))
	c := w.collected("group: g\njob: {image: build:1}\npackages: {p: {sources: [a, b]}, q: {sources: [b, a/x, a]}, r: {sources: [b]}}")
	assert.True(t, len(c.Sources) == 2 && c.Sources[0].Files == 4 &&
		reflect.DeepEqual(c.Sources[0].Paths, []string{"a", "b"}), "kept is %+v", c.Sources)
	require.Equal(t, w.recipe(c, 2).Artifact, w.recipe(c, 1).Artifact)
	assert.NotEqual(t, w.recipe(c, 3).Artifact, w.recipe(c, 1).Artifact)
}

func TestWhatAKilledSubmissionLeftIsRemoved(t *testing.T) {
	w := newWorld(t, map[string]string{"a/x": "1", ".deployster/sources-1/x": "old", ".deployster/sources-2/x": "new", ".deployster/sources-3/x": "old"})
	for _, name := range []string{"1", "3"} {
		old, then := filepath.Join(w.dir, ".deployster/sources-"+name), time.Now().Add(-2*time.Minute)
		require.NoError(t, os.Chtimes(old, then, then))
	}
	atWork := must.Get(os.Open(filepath.Join(w.dir, ".deployster/sources-3")))(t)
	defer atWork.Close()
	require.NoError(t, syscall.Flock(int(atWork.Fd()), syscall.LOCK_EX))
	w.collected("group: g\npackages: {p: {image: build:1, sources: [a]}}")
	left := must.Get(filepath.Glob(filepath.Join(w.dir, ".deployster/sources-*")))(t)
	assert.True(t, len(left) == 2 && filepath.Base(left[0]) == "sources-2" && filepath.Base(left[1]) == "sources-3", "left are %v", left)
}

func TestAnImageThatIsNotPinned(t *testing.T) {
	w := newWorld(t, nil)
	w.Unpinned = true
	text := "group: g\npackages: {a: {image: nosuch:1}, b: {image: build:1}}"
	c := w.collected(text)
	r := w.recipe(c, 1)
	assert.True(t, strings.Contains(r.Image.Unpinned, "nosuch:1") && r.Image.ID == "", "it is %+v", r.Image)
	w.Own = "another group"
	again := w.collected(text)
	require.NotEqual(t, again.Submit.Jobs[0].Inputs, c.Submit.Jobs[0].Inputs)
	assert.Equal(t, again.Submit.Jobs[1].Inputs, c.Submit.Jobs[1].Inputs, "what is not pinned is the same in another group, or what is pinned is not")
}

func TestAListOfJobsIsCollected(t *testing.T) {
	w := newWorld(t, nil)
	c := w.collected("group: n\njobs:\n  - {name: b, needs: [a], image: build:1}\n  - {name: a, image: build:2, target: linux/amd64}\n").Submit
	if len(c.Jobs) != 2 || c.Jobs[0].Package != "a" || !reflect.DeepEqual(c.Jobs[1].Uses, []record.Use{{Package: "a", Job: 1}}) || c.Converge != 0 || c.Jobs[0].Of != 0 {
		t.Errorf("it is %+v", c)
	}
	assert.Len(t, c.Places, 1)
}

// Whatever a definition says, it is refused with what is wrong, or the machine takes it.
func FuzzCollect(f *testing.F) {
	f.Add(toolchain)
	f.Add("group: n\njobs:\n  - {name: b, needs: [a], image: build:1}\n  - {name: a, image: build:2, target: linux/amd64}\n")
	f.Fuzz(func(t *testing.T, text string) {
		w := newWorld(t, plans())
		got, err := w.collect(text)
		if err != nil {
			var invalid *work.InputError
			require.ErrorAs(t, err, &invalid)
			return
		}
		for i := range got.Submit.Jobs {
			image := w.recipe(got, i+1).Image
			require.NotEmpty(t, image.ID+image.Digest+image.Unpinned, "job %d runs", i+1)
		}
		_, err = build.New("builds").Propose(got.Submit, time.Now())
		require.True(t, err != nil || len(got.Submit.Jobs) != 0, "a group without jobs is taken")
	})
}

// What is broken hides nothing else: whoever mends all that is said can submit.
func TestMistakesOfAllKindsAreSaidAtOnce(t *testing.T) {
	w := newWorld(t, plans())
	text := `group: base
job: {image: build:1, target: linux-amd64}
packages:
  a: {build: [bbb], sources: [plans/gone, plans/gcc, plans/lost]}
  b: {run: [b], args: ["{{ nope }}", "{{ } }}", "{{ flags }}"]}
  c: {image: nosuch:1, env: {X: "{{ } }}"}}
  d: {sources: [gone, ../out], workers: role = x}
  e: {build: [e], image: "{{ flags }} x", env: {X: "{{ nope }}"}}
  f: {released: {path: nowhere}}
  g: {image: nosuch:1, build: [f], sources: [lost]}
  h: [a]
  i: {build: [h], image: "", args: ["{{ nope }}"]}
`
	want := []string{
		`2:31: job.target: "linux-amd64" is not a platform, as linux/amd64 or linux/arm/v7 are`,
		`4:15: packages.a.build[0]: there is no package "bbb"; possible are a, b, c, `,
		`4:31: packages.a.sources[0]: there is no plans/gone in the workspace: a cannot be built without it; correct the path, or what is there`,
		`4:54: packages.a.sources[2]: there is no plans/lost in the workspace: a cannot`,
		`5:12: packages.b.run: package b cannot need itself to run`,
		`5:24: packages.b.args[0]: "nope" is not defined`,
		`5:38: packages.b.args[1]: `,
		`6:14: packages.c.image: which content image nosuch:1 has for linux/amd64 cannot be found out: `,
		`6:33: packages.c.env.X: `,
		`7:17: packages.d.sources[0]: there is no gone in the workspace`,
		`7:23: packages.d.sources[1]: "../out" leaves the workspace`,
		`7:41: packages.d.workers: cannot select workers: `,
		`8:3: packages.e: it cannot be built: it needs itself, and was never released; give one that is released`,
		`8:26: packages.e.image: "-O2 x" is not an image`,
		`8:52: packages.e.env.X: "nope" is not defined`,
		`10:14: packages.g.image: which content image nosuch:1 has`,
		`10:46: packages.g.sources[0]: there is no lost in the workspace`,
		`11:6: packages.h: a package must be a mapping`,
		`12:26: packages.i.image: must be an image, not empty`,
		`12:37: packages.i.args[0]: "nope" is not defined`,
	}
	_, err := w.collect(text)
	var invalid *work.InputError
	require.ErrorAs(t, err, &invalid)
	got := strings.Split(err.Error(), "\n")
	for i, line := range got {
		require.Less(t, i, len(want), "line %d is not as wanted:\n%s", i+1, err)
		require.True(t, strings.HasPrefix(line, "packages.yaml:"+want[i]), "line %d is not as wanted:\n%s", i+1, err)
	}
	assert.Len(t, got, len(want), "it says only\n")
	left, err := filepath.Glob(filepath.Join(w.dir, ".deployster/sources-*"))
	require.NoError(t, err, "it leaves %v", left)
	assert.Empty(t, left)
}

// A name that is not there hides nothing of those that are.
func TestTouchedNamesAreSaidWithTheRest(t *testing.T) {
	w := newWorld(t, plans())
	_, err := w.collect("group: g\njob: {image: build:1}\npackages:\n  gcc: {args: [\"{{ nope }}\"]}\n  make: {build: [gc]}\n  curl: {args: [\"{{ nix }}\"]}\n", "gc", "gcc", "mkae")
	want := []string{
		`packages.yaml:4:16: packages.gcc.args[0]: "nope" is not defined`,
		`packages.yaml:5:18: packages.make.build[0]: there is no package "gc", did you mean "gcc"?`,
		`--touched: there is no package "gc", did you mean "gcc"?`,
		`--touched: there is no package "mkae", did you mean "make"?`,
	}
	require.Error(t, err, "it is submitted")
	for i, line := range strings.Split(err.Error(), "\n") {
		require.Less(t, i, len(want), "line %d is not as wanted:\n%s", i+1, err)
		assert.True(t, strings.HasPrefix(line, want[i]), "line %d is not as wanted:\n%s", i+1, err)
	}
}

func TestJobsThatNobodyCanDoAreSaid(t *testing.T) {
	role := func(name, role string, platforms ...string) inventory.Host {
		return inventory.Host{Name: name, Platforms: platforms, Attributes: map[string][]string{"role": {role}}}
	}
	for _, c := range []struct {
		name     string
		hosts    []inventory.Host
		job      string
		away     []string
		builds   map[string][]string
		platform string // of the place; "" is that it is refused
		want     string // the warning, or the refusal; "" is none
	}{
		{"a worker that answers", []inventory.Host{role("a", "builder")}, "", nil, map[string][]string{"a": {"linux/arm64"}}, "linux/arm64", ""},
		{"one that says its platform", []inventory.Host{role("a", "builder", "linux/arm/v7")}, "", nil, nil, "linux/arm/v7", ""},
		{"a platform without its variant", []inventory.Host{role("a", "builder", "linux/arm/v7")}, "target: linux/arm", nil, nil, "linux/arm", ""},
		{"no hosts", nil, "", nil, nil, "linux/" + runtime.GOARCH, "no worker can do 2 jobs now, of a, b: the inventory has no hosts: list workers in it"},
		{"nobody selected", []inventory.Host{role("a", "web")}, `workers: "attribute:role == builder"`, nil, nil, "linux/" + runtime.GOARCH, `no host of the inventory is selected by "attribute:role == builder": correct the query`},
		{"another platform", []inventory.Host{role("a", "builder", "linux/amd64")}, "target: linux/arm64", nil, nil, "linux/arm64", "no worker has the platform linux/arm64: add a host that has it to the inventory, or correct target"},
		{"an engine of another platform", []inventory.Host{role("a", "builder")}, "target: linux/arm64", nil, map[string][]string{"a": {"linux/amd64"}}, "linux/arm64", "no worker has the platform linux/arm64: worker a builds for linux/amd64: add a host that has it"},
		{"nobody answers", []inventory.Host{role("a", "builder", "linux/amd64"), role("b", "builder", "linux/amd64")}, "", []string{"a", "b"}, nil, "linux/amd64", "no worker for linux/amd64 answers (2 hosts): a is away b is away"},
		{"one of two answers", []inventory.Host{role("a", "builder"), role("b", "builder")}, "", []string{"a"}, map[string][]string{"b": {"linux/amd64"}}, "linux/amd64", ""},
		{"several platforms", []inventory.Host{role("a", "builder", "linux/amd64", "linux/arm64")}, "", nil, nil, "", "packages.yaml:3:12: its workers have several platforms, linux/amd64, linux/arm64: say for which it is built, as target: linux/amd64"},
		{"several platforms of a query", []inventory.Host{role("a", "builder", "linux/amd64"), role("b", "builder", "linux/arm64")}, "workers: name exists", nil, nil, "", "its workers have several platforms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.hosts, w.builds, w.Unpinned = c.hosts, c.builds, true
			for i := range c.hosts {
				if w.builds == nil {
					w.builds = map[string][]string{}
				}
				if w.builds[c.hosts[i].Name] == nil {
					w.builds[c.hosts[i].Name] = c.hosts[i].Platforms
				}
			}
			for _, name := range c.away {
				w.away[name] = fmt.Errorf("%s is away", name)
			}
			w.images["build:1"] = image("aa")
			got, err := w.collect("group: g\njob: {image: build:1, " + c.job + "}\npackages: {a: {}, b: {}}")
			if c.platform == "" {
				assert.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			warned := strings.Join(got.Warnings, "\n")
			if got.Submit.Places[0].Platform != c.platform || strings.Contains(warned, "no worker can do") != (c.want != "") || !strings.Contains(warned, c.want) {
				t.Errorf("places %v, warnings %q", got.Submit.Places, got.Warnings)
			}
		})
	}
}

// A job that no worker can do keeps nothing else of its group from being built.
func TestAPlatformThatNoWorkerHasRefusesNoGroup(t *testing.T) {
	digest := "sha256:" + strings.Repeat("dd", 32)
	for _, c := range []struct {
		name, job string
		away      bool // the worker
		want      recipe.Image
		warned    string // "" is refused
	}{
		{"a name", "{name: boot, target: linux/riscv64, image: build:1}", false,
			recipe.Image{Image: "build:1", Unpinned: "no worker has the platform linux/riscv64: worker local builds for linux/amd64: add a host that has it to the inventory, or correct target"},
			"no worker can do 1 job now, of boot: no worker has the platform linux/riscv64: worker local builds for linux/amd64: add a host that has it to the inventory, or correct target; image build:1 is used as it is"},
		{"a query", "{name: boot, workers: name == nobody, image: build:1}", false,
			recipe.Image{Image: "build:1", Unpinned: `no host of the inventory is selected by "name == nobody": correct the query, or give hosts what it asks for`},
			`no worker can do 1 job now, of boot: no host of the inventory is selected by "name == nobody"`},
		{"a digest", "{name: boot, target: linux/riscv64, image: \"tools@" + digest + "\"}", false,
			recipe.Image{Image: "tools@" + digest, Digest: digest}, "no worker can do 1 job now, of boot: no worker has the platform linux/riscv64"},
		{"an id", "{name: boot, target: linux/riscv64, image: \"" + digest + "\"}", false,
			recipe.Image{Image: digest, ID: digest}, "no worker can do 1 job now, of boot"},
		{"a worker that does not answer may have the platform", "{name: boot, image: build:1}", true, recipe.Image{}, ""},
		{"but needs not for a digest", "{name: boot, image: \"tools@" + digest + "\"}", true,
			recipe.Image{Image: "tools@" + digest, Digest: digest}, "no worker for linux/amd64 answers (1 host): local is away"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.hosts = []inventory.Host{{Name: "local"}}
			text := "group: cross\njobs:\n  - " + c.job + "\n  - {name: l1, image: build:2}\n"
			if c.away {
				w.hosts[0].Platforms, w.away["local"] = []string{"linux/amd64"}, errors.New("local is away")
				text = "group: cross\njobs:\n  - " + c.job + "\n"
			}
			got, err := w.collect(text)
			if c.warned == "" {
				assert.ErrorContains(t, err, "which content image build:1 has for linux/amd64 cannot be found out")
				return
			}
			require.NoError(t, err)
			require.Len(t, got.Warnings, 1)
			assert.Contains(t, got.Warnings[0], c.warned)
			assert.Equal(t, c.want.Unpinned != "", strings.Contains(got.Warnings[0], "name it by digest"), "%s", got.Warnings[0])
			for i, j := range got.Submit.Jobs {
				if j.Package == "boot" {
					assert.Equal(t, c.want, w.recipe(got, i+1).Image)
				} else {
					assert.Equal(t, image("bb").ID, w.recipe(got, i+1).Image.ID)
				}
			}
			w.Own = "another group"
			boot := func(c *submission.Collected) string {
				return c.Submit.Jobs[slices.IndexFunc(c.Submit.Jobs, func(j record.JobSpec) bool { return j.Package == "boot" })].Inputs
			}
			assert.Equal(t, c.want.Unpinned == "", boot(w.collected(text)) == boot(got), "what is pinned is the same in another group, and nothing else is")
		})
	}
}

func TestAnInventoryThatCannotBeReadIsSaid(t *testing.T) {
	w := newWorld(t, nil)
	w.hosts, w.err = nil, errors.New("inventory.yaml:1:1: it is broken")
	_, err := w.collect("group: g\npackages: {a: {image: build:1}}")
	assert.ErrorContains(t, err, "it is not known which workers there are: inventory.yaml:1:1: it is broken")
}

// What a plug shows a job is part of what goes into it.
func TestPlugsTellWhatGoesIntoAJob(t *testing.T) {
	type change = func(w *world, dir string) error
	write := func(_ *world, dir string) error {
		return os.WriteFile(filepath.Join(dir, "tool"), []byte("two"), 0o755)
	}
	for _, c := range []struct {
		name, plug, job string
		before          change // it is submitted for the first time
		between         change
		same            bool
		warned          string // of the path of the plug; "" is nothing
	}{
		{name: "nothing", plug: "read_only: true", same: true},
		{name: "a text", plug: "read_only: true", between: write},
		{name: "another file", plug: "read_only: true", between: func(_ *world, dir string) error { return os.WriteFile(filepath.Join(dir, "b"), nil, 0o600) }},
		{name: "the state within the plug", plug: "read_only: true", same: true, between: func(w *world, _ string) error {
			w.write("plug/.deployster/log", "x")
			return nil
		}},
		{name: "a plug that is written to", plug: "read_only: false", warned: "it is writable, so 2 jobs (a, b) are built again in each group: say reuse: true if the plug does not change what is built, or reuse: false if it does"},
		{name: "a cache", plug: "read_only: false", job: "reuse: true", same: true},
		{name: "what is never to be used again", plug: "read_only: true", job: "reuse: false"},
		{name: "a socket", plug: "read_only: true", before: func(_ *world, dir string) error { return syscall.Mkfifo(filepath.Join(dir, "socket"), 0o600) },
			warned: "socket is a FIFO, which has no content, so 2 jobs (a, b) are built again"},
		{name: "too much", plug: "read_only: true", before: func(_ *world, dir string) error { return os.Truncate(filepath.Join(dir, "tool"), contents.MaxBytes+1) },
			warned: "holds more than 256 MiB"},
		{name: "nothing is there", plug: "read_only: true", before: func(_ *world, dir string) error { return os.RemoveAll(dir) }, warned: "cannot be read"},
		{name: "the machine of a server", plug: "read_only: true", before: func(w *world, _ string) error { w.Contents = nil; return nil }, warned: "it is on a worker of the server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"plug/tool": "one"})
			dir := filepath.Join(w.dir, "plug")
			w.Contents = &contents.Reader{Except: filepath.Join(dir, ".deployster"), Now: time.Now}
			text := "group: g\njob: {image: build:1, plugs: [{path: " + dir + ", container_path: /tool, " + c.plug + "}]"
			if c.job != "" {
				text += ", " + c.job
			}
			text += "}\npackages: {a: {}, b: {}}"
			if c.before != nil {
				require.NoError(t, c.before(w, dir))
			}
			before := w.collected(text)
			if c.between != nil {
				require.NoError(t, c.between(w, dir))
			}
			w.Own = "another group"
			after := w.collected(text)
			assert.Equal(t, c.same, before.Submit.Jobs[0].Inputs == after.Submit.Jobs[0].Inputs)
			if c.warned == "" {
				assert.Empty(t, after.Warnings)
			} else {
				require.Len(t, after.Warnings, 1)
				assert.True(t, strings.HasPrefix(after.Warnings[0], "plug "+dir+": ") && strings.Contains(after.Warnings[0], c.warned), "%s", after.Warnings[0])
			}
			assert.Equal(t, c.plug == "read_only: true" && c.warned == "" && c.job == "", len(after.Plugs) == 1)
		})
	}
}
