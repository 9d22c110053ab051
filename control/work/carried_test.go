package work

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/inclusion"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/manifest"
	pipelinedef "github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// checkout is a workspace with files.
type checkout struct {
	*testing.T
	dir string
}

func newCheckout(t *testing.T, files map[string]string) checkout {
	c := checkout{t, t.TempDir()}
	for name, text := range files {
		c.write(name, text)
	}
	return c
}

func (c checkout) write(name, text string) {
	path := filepath.Join(c.dir, name)
	require.NoError(c, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
}

func (c checkout) link(name, to string) {
	path := filepath.Join(c.dir, name)
	require.NoError(c, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink(to, path)))
}

func (c checkout) fifo(name string) {
	path := filepath.Join(c.dir, name)
	require.NoError(c, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), syscall.Mkfifo(path, 0o600)))
}

// collect reads what a manifest with one resource includes.
func (c checkout) collect(content string) (Carried, error) {
	collected, err := Collect(c.dir, nil, nil, manifest.Source{Name: "m.yaml", Data: []byte("resources:\n  a:\n    type: deployster/file\n    config: {path: a, content: '" + content + "'}\n")})
	if err != nil {
		return nil, err
	}
	return collected.Files, nil
}

func (c checkout) wantCarried(content string, want ...string) {
	files, err := c.collect(content)
	delete(files, revision.OmittedName)
	want = slices.Sorted(slices.Values(append(want, "m.yaml")))
	got := slices.Sorted(maps.Keys(files))
	assert.True(c, err == nil && slices.Equal(got, want), "with %s it carries %v (%v), want %v", content, got, err, want)
}

func TestARevisionCarriesAllThatItsManifestMayInclude(t *testing.T) {
	c := newCheckout(t, map[string]string{
		"x/one": `1 {% include "x/two" %}`, "x/two": "2", "x/y/three": "3", "x/broken": "{% if %}", "z": `{% import "x/two" as t %}`, "a": "A",
		".deployster/objects/sha256/0": "of others",
	})
	c.wantCarried("no expression")
	c.wantCarried(`{% include "x/two" %}`, "x/two")
	c.wantCarried(`{% include "x/../x//two" %}`, "x/two")
	c.wantCarried(`{% include "x/one" %}`, "x/one", "x/two")
	c.wantCarried(`{% include "z" %}`, "x/two", "z")
	c.wantCarried(`{% from "x/two" import a %}`, "x/two")
	c.wantCarried(`{% include "none" ignore missing %}`)
	c.wantCarried(`{% include ["none", "x/one", "a"] %}`, "a", "x/one", "x/two")
	c.wantCarried(`{% include "a" if host is defined else "x/two" %}`, "a", "x/two")
	c.wantCarried(`{% include "x/" ~ host %}`, "x/broken", "x/one", "x/two", "x/y/three")
	c.wantCarried(`{% include "x" ~ "/y/" ~ host ~ ".txt" %}`, "x/y/three")
	c.wantCarried(`{% include "x" ~ "/two" %}`, "x/two")
	c.wantCarried(`{% include "./" ~ host %}`, "a", "x/broken", "x/one", "x/two", "x/y/three", "z")
	c.wantCarried(`{% include "nowhere/" ~ host %}`)
	c.wantCarried(`{% include "../" ~ host %}`)
}

func TestWhatARevisionCannotCarryIsRefusedWithItsPlace(t *testing.T) {
	c := newCheckout(t, map[string]string{"any": `{% include host %}`, "x/any": `{% include host %}`, "half": "{% if"})
	for content, says := range map[string]string{
		`{% include host %}`:                  "m.yaml:4:",
		`{% include host ~ "/x" %}`:           "begin the name with its directory",
		`{% include "any" %}`:                 "known only when it is evaluated",
		`{% include ["x/any", "a"] %}`:        "x/any, which may be included: it includes a file whose name is known only when",
		`{% include "x/" ~ host ~ "/../z" %}`: `m.yaml:4:`,
		`{% include "none" %}`:                `cannot include "none": there is no such file`,
		`{% include "half" %}`:                "half",
		`{% include "../secret" %}`:           "outside of the workspace",
		`{% include`:                          "m.yaml:4:",
		`{% include "/etc/passwd" %}`:         "outside of the workspace",
	} {
		files, err := c.collect(content)
		var invalid *InputError
		assert.True(t, errors.As(err, &invalid) && files == nil &&
			strings.Contains(err.Error(), says), "with %s: %v, %v, want an error that says %q", content, files, err, says)
	}
	_, err := Collect(c.dir, nil, nil, manifest.Source{Name: "half.yaml", Data: []byte("resources: {a: {type: [")})
	assert.ErrorContains(t, err, "half.yaml:1", "a file that is half saved")
}

func TestWhatMayBeIncludedAndCannotBeReadIsRefused(t *testing.T) {
	c := newCheckout(t, map[string]string{"conf/default": "D", "conf/h1": "1", "large": strings.Repeat("x", 1<<20+1), "dir/file": ""})
	outside := newCheckout(t, map[string]string{"h7": "secret"})
	c.fifo("pipe/h7")
	c.link("out", outside.dir)
	for content, says := range map[string]string{
		`{% include ["pipe/h7", "conf/default"] %}`:                    "pipe/h7, which may be included, cannot be read: it is not a file",
		`{% include ["dir", "conf/default"] %}`:                        "dir, which may be included, cannot be read: it is not a file",
		`{% include "large" if host is defined else "conf/default" %}`: "large, which may be included, cannot be read: it is larger than 1 MiB",
		`{% include ["out/" ~ host, "conf/default"] %}`:                "out, which may be included, cannot be read: ",
		`{% include "conf/h1/" ~ host ignore missing %}`:               "conf/h1, which may be included, cannot be read: it is not a directory",
		`{% include ["conf/h1/x", "conf/default"] %}`:                  "conf/h1/x, which may be included, cannot be read: not a directory",
	} {
		if files, err := c.collect(content); err == nil || files != nil || !strings.Contains(err.Error(), says) {
			t.Errorf("with %s: %v, %v, want an error that says %q", content, slices.Sorted(maps.Keys(files)), err, says)
		}
	}
	c.wantCarried(`{% include ["conf/" ~ host, "conf/default"] %}`, "conf/default", "conf/h1")
}

func TestARevisionCarriesWhatLinksLeadTo(t *testing.T) {
	c := newCheckout(t, map[string]string{"conf/beta/h1": "beta", "conf/default": "D", "shared/h2": "2"})
	c.link("conf/prod", "beta")
	c.link("conf/beta/shared", "../../shared")
	c.link("conf/beta/h3", "../default")
	c.link("conf/beta/gone", "nowhere")
	c.link("all", "conf")
	c.wantCarried(`{% include ["conf/" ~ stage ~ "/" ~ host, "shared/h2"] %}`, "conf/default", "conf/beta/h1", "conf/beta/h3",
		"conf/beta/shared/h2", "conf/prod/h1", "conf/prod/h3", "conf/prod/shared/h2", "shared/h2")
	c.wantCarried(`{% include "all/prod/" ~ host %}`, "all/prod/h1", "all/prod/h3", "all/prod/shared/h2")
}

func TestWhatIsAbsentOrBrokenHidesNothingThatAPossibleFileIncludes(t *testing.T) {
	c := newCheckout(t, map[string]string{
		"hosts/h1": `{% if big %}{% include "lib/absent" %}{% include "lib/half" %}{% endif %}{% include "lib/common" %}{% include "more/" ~ x %}`,
		"hosts/h2": `{% extends "lib/base" %}`,
		"lib/half": "{% if", "lib/common": `{% include "lib/deep" %}{% include "hosts/h1" %}`, "lib/deep": "", "more/x": "",
		"lib/base": `{% import "lib/macros" as m %}`, "lib/macros": "",
	})
	c.wantCarried(`{% include "hosts/" ~ host %}`, "hosts/h1", "hosts/h2", "lib/base", "lib/common", "lib/deep", "lib/half", "lib/macros", "more/x")
	c.link("lib/absent", t.TempDir())
	if files, err := c.collect(`{% include "hosts/h1" %}`); err == nil || files != nil || !strings.Contains(err.Error(), `"lib/absent"`) {
		t.Errorf("with a link that leads out: %v, %v", files, err)
	}
}

func TestADirectoryOfARevisionIsNoFileThatIsAbsent(t *testing.T) {
	c := newCheckout(t, map[string]string{"conf/h7/file": "", "conf/prod": "", "conf/default": "D"})
	files := must.Get(c.collect(`{% include ["conf/" ~ host, "conf/default"] %}`))(t)
	for name, says := range map[string]string{"conf/h7": "it is a directory", "conf/prod/h7": "conf/prod is a file"} {
		for _, read := range []func(string) (string, error){files.Files(), c.config().Texts.Files(files.Digests())} {
			if _, err := read(name); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), says) {
				t.Errorf("of %s is said %v, without %q", name, err, says)
			}
		}
	}
	assert.ErrorIs(t, must.Fail(files.Files()("conf/h8")), fs.ErrNotExist)
}

func TestTooManyFilesAreNotCarried(t *testing.T) {
	c := newCheckout(t, nil)
	for i := range inclusion.MaxFiles + 1 {
		c.write("x/"+strings.Repeat("0", i%7)+time.Duration(i).String(), "")
	}
	assert.ErrorContains(t, must.Fail(c.collect(`{% include "x/" ~ host %}`)), "too many")
}

// config is that of workers of which only the loading is used.
func (c checkout) config() Config {
	return Config{
		Inputs: Inputs{Workspace: c.dir, Now: time.Now, Hide: func(any) {}},
		Texts:  NewTexts(filepath.Join(c.dir, ".deployster", "objects"), c.dir, nil),
	}
}

func (c checkout) pool() *EnginePool {
	return NewEnginePool(NewHosts(filepath.Join(c.dir, "inventory.yaml")), nil)
}

func (c checkout) tasks() *TaskWorker {
	return &TaskWorker{worker: newWorker(c.config(), c.pool(), "env run")}
}

func (c checkout) wantContent(w *TaskWorker, spec definition.TaskSpec, want string) {
	content, err := func() (any, error) {
		t := tasks.Task{Environment: "e", Host: "h", Revision: 1, Spec: spec}
		text, err := w.Texts.Load(spec.Digest)
		if err != nil {
			return nil, err
		}
		o, err := w.carried(t)
		if err != nil {
			return nil, err
		}
		in, err := w.load(t, manifest.Source{Name: spec.Manifest, Data: text}, o)
		if err != nil {
			return nil, err
		}
		return in.Expressions.Resolve(in.Manifest.Resource("a").Config["content"], in.Variables)
	}()
	assert.True(c, (err != nil || content == want) &&
		(err == nil || want != "" && strings.Contains(err.Error(), want)), "it is %q, %v, want %q", content, err, want)
}

func TestARevisionIsWhatItWasWhateverBecomesOfItsFiles(t *testing.T) {
	c := newCheckout(t, map[string]string{"part": `old{% include "late" ignore missing %}`})
	files := must.Get(c.collect(`{% include "part" %}`))(t)
	w := c.tasks()
	require.NoError(t, w.Texts.KeepAll(files))
	digests := files.Digests()
	spec := definition.TaskSpec{Manifest: "m.yaml", Digest: digests["m.yaml"], Includes: digests}
	c.write("part", "edited")
	c.write("late", "and late")
	c.wantContent(w, spec, "old")
	require.NoError(t, os.Remove(filepath.Join(c.dir, "part")))
	c.wantContent(w, spec, "old")

	// A former version kept no more than the manifest.
	former := definition.TaskSpec{Manifest: "m.yaml", Digest: digests["m.yaml"]}
	c.write("part", "edited again")
	c.wantContent(w, former, "edited again")

	// What was altered is refused with its hash, and is not taken for a file that is not there.
	object := filepath.Join(c.dir, ".deployster", "objects", "sha256", objects.Hash(files["part"]))
	require.NoError(t, os.WriteFile(object, []byte("altered"), 0o600))
	c.wantContent(w, spec, objects.Hash(files["part"]))
	require.NoError(t, os.Remove(object))
	c.wantContent(w, spec, objects.Hash(files["part"]))
	other := must.Get(c.collect(`x{% include "part" ignore missing %}`))(t)
	require.NoError(t, w.Texts.KeepAll(Carried{"m.yaml": other["m.yaml"]}))
	spec.Digest = objects.Hash(other["m.yaml"])
	c.wantContent(w, spec, "is missing")
}

func TestAStepGetsWhatItsRevisionCarriesWhateverBecomesOfTheFiles(t *testing.T) {
	const text = "resources: {a: {type: deployster/file, config: {path: a, content: '{% include \"part\" %}'}}}"
	c := newCheckout(t, map[string]string{"m.yaml": text, "part": "old"})
	d := &pipelinedef.Definition{Name: "p", Stages: []pipelinedef.Stage{{Name: "one", Run: &pipelinedef.Run{Manifest: "m.yaml"}}, {Name: "two", Run: &pipelinedef.Run{Manifest: "m.yaml"}}}}
	collected, err := CollectPipeline(c.dir, reading(nil), d)
	w := NewStepWorker(c.config(), c.pool())
	require.NoError(t, err)
	files := collected.Files
	require.NoError(t, w.Texts.KeepAll(files))
	content := func(carried record.Files) (any, error) {
		step := step.Step{Target: "stage/p/one", Stage: "one", Manifest: "m.yaml", Revision: "1", Files: carried}
		in, err := w.loadStep(step, LoadOptions{Builtin: w.variables(step, nil)})
		if err != nil {
			return nil, err
		}
		return in.Expressions.Resolve(in.Manifest.Resource("a").Config["content"], in.Variables)
	}
	c.write("part", "edited")
	assert.True(t, must.Get(content(files.Digests()))(t) == "old")
	assert.True(t, must.Get(content(nil))(t) == "edited", "of a former version")
	c.write("m.yaml", "resources: {a: {type: [")
	assert.True(t, must.Get(content(files.Digests()))(t) == "old", "with a file that is half saved")
	if files, err := CollectPipeline(c.dir, reading(nil), d); err == nil || files != nil {
		t.Errorf("a file that is half saved is carried: %v", files)
	}
	c.write("other/m.yaml", text)
	d.Stages[0].Run.Manifest, d.Stages[1].Run.Manifest = "none.yaml", "../m.yaml"
	_, err = CollectPipeline(c.dir, reading(nil), d)
	for _, says := range []string{"stage one: manifest none.yaml: ", "stage two: manifest ../m.yaml: it is not below the workspace"} {
		assert.ErrorContains(t, err, says)
	}
}

// A module includes files of its own directory, also those that such a file names.
func TestARevisionCarriesItsModules(t *testing.T) {
	c := newCheckout(t, map[string]string{
		"m/module.yaml":     "variables: {v: {}}\nresources: {a: {type: deployster/file, config: {path: a, content: '{% include \"t/\" ~ v %}'}}}\nmodules: {in: {source: ./in}}\noutputs: {o: '{% include \"o\" %}'}\n",
		"m/t/one":           `{% include "part" %}`,
		"m/part":            "of the module",
		"part":              "of the workspace",
		"m/o":               "told",
		"m/unread":          "",
		"m/in/module.yaml":  "resources: {}",
		"other/module.yaml": "resources: {}",
	})
	const call = "modules: {m: {source: %s, vars: {v: one}}}"
	collect := func(source string) (*Collection, error) {
		return Collect(c.dir, nil, nil, manifest.Source{Name: "m.yaml", Data: fmt.Appendf(nil, call, source)})
	}
	collected, err := collect("./m")
	require.NoError(t, err)
	want := []string{"m.yaml", "m/in/module.yaml", "m/module.yaml", "m/o", "m/part", "m/t/one"}
	assert.Equal(t, want, slices.Sorted(maps.Keys(collected.Files)))
	c.link("away", "/etc")
	for source, says := range map[string]string{
		"./none": "m.yaml:1:23: modules.m.source: none/module.yaml cannot be read: there is no such file",
		"./away": "m.yaml:1:23: modules.m.source: away/module.yaml cannot be read: it is outside of the workspace",
		"../m":   `"../m" leads out of the workspace`,
	} {
		_, err = collect(source)
		assert.ErrorContains(t, err, says, source)
	}
}

// wantOmitted collects what includes of a manifest name, and checks what is carried and what is left out.
func (c checkout) wantOmitted(content string, carried []string, omitted map[string]string) Carried {
	c.wantCarried(content, carried...)
	files := must.Get(c.collect(content))(c)
	all, err := (&Collection{Files: files}).Omitted()
	require.NoError(c, err, content)
	assert.Len(c, all, len(omitted), content)
	for _, o := range all {
		says := omitted[o.Name]
		assert.True(c, says != "" && strings.Contains(o.Why, says), "with %s is left out %v, want %v", content, o, omitted)
	}
	return files
}

func TestStrayEntriesOfADirectoryAreLeftOutAndRefusedOnlyWhereTheyAreIncluded(t *testing.T) {
	c := newCheckout(t, map[string]string{
		"conf/default": "D", "conf/h1": "1", "conf/h1~": `{% include host %}`, "conf/.h1.swp": strings.Repeat("\x00", 1<<20+1),
		"conf/loop/a/file": "", "conf/h2": `{% include ["lib/pipe", "conf/default"] %}`,
	})
	outside := newCheckout(t, map[string]string{"h7": "secret"})
	c.fifo("conf/pipe")
	c.fifo("lib/pipe")
	socket := must.Get(net.Listen("unix", filepath.Join(c.dir, "conf", "socket")))(t)
	defer socket.Close()
	c.link("conf/h7", filepath.Join(outside.dir, "h7"))
	c.link("conf/prod", outside.dir)
	c.link("conf/.#h1", "nobody@nowhere.1")
	c.link("conf/loop/a/b", "../../loop")
	files := c.wantOmitted(`{% include ["conf/" ~ host, "conf/default"] %}`,
		[]string{"conf/default", "conf/h1", "conf/h2", "conf/loop/a/file"},
		map[string]string{
			"conf/h1~": "known only when it is evaluated", "conf/.h1.swp": "larger than 1 MiB", "conf/pipe": "not a file", "conf/socket": "not a file",
			"conf/h7": "outside of the workspace", "conf/prod": "outside of the workspace", "conf/.#h1": "a link to what is not there",
			"conf/loop/a/b": "a link to conf/loop, in which it is itself", "lib/pipe": "not a file",
		})
	texts := c.config().Texts
	require.NoError(t, texts.KeepAll(files))
	for _, read := range []expression.Files{files.Files(), texts.Files(files.Digests())} {
		content := func(host string) (any, error) {
			return expression.Over(read).Evaluate(`{% include ["conf/" ~ host, "conf/default"] %}`, map[string]any{"host": host})
		}
		for host, want := range map[string]string{"h1": "1", "h9": "D", "loop/a/file": ""} {
			got := must.Get(content(host))(t)
			assert.True(t, got == want, "on %s it is %q", host, got)
		}
		for host, says := range map[string]string{
			"h7": "the revision was made without it: it is outside of the workspace; correct or remove it, and make a new revision",
			"h2": `cannot include "lib/pipe": the revision was made without it`, "prod/h7": "the revision was made without conf/prod: ",
			"loop/a/b/a/file": "in which it is itself", ".#h1": "not there",
		} {
			if got, err := content(host); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), says) {
				t.Errorf("on %s it is %q, %v, want an error that says %q", host, got, err, says)
			}
		}
	}
	if all, err := texts.Omitted(files.Digests()); err != nil || len(all) != 9 || !slices.IsSortedFunc(all, func(a, b revision.Omitted) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("the revision says %v, %v", all, err)
	}
}

func TestWhatWasLeftOutStaysSoInRevisionsMadeOfThese(t *testing.T) {
	c := newCheckout(t, map[string]string{"conf/h1": "1"})
	c.fifo("conf/pipe")
	kept := c.wantOmitted(`{% include "conf/" ~ host %}`, []string{"conf/h1"}, map[string]string{"conf/pipe": "not a file"})
	again, err := Collect(c.dir, kept, nil)
	if err != nil || string(again.Files[revision.OmittedName]) != string(kept[revision.OmittedName]) || len(kept[revision.OmittedName]) == 0 {
		t.Errorf("made of the same files it leaves out %s, %v", again.Files[revision.OmittedName], err)
	}
	kept[revision.OmittedName] = []byte(`{"version":2}`)
	assert.ErrorContains(t, must.Fail(Collect(c.dir, kept, nil)), "use a newer one", "of a newer version")
}

func TestASecretMayHaveChangedWhereNothingIsApplied(t *testing.T) {
	const (
		env  = "plugs: {docker: {path: /var/run/docker.sock}}\nresources: {c: {type: deployster/container, config: {image: i, secret_env: {P: '{{ mine }}'}}}}"
		name = "plugs: {docker: {path: /var/run/docker.sock}}\nresources: {c: {type: deployster/container, config: {image: i, name: '{{ mine }}'}}}"
		run  = "plugs: {docker: {path: /var/run/docker.sock}}\nresources: {c: {type: deployster/command, config: {image: i, check: ['true'], apply: ['true'], secret_env: {P: '{{ mine }}'}}}}"
	)
	for label, test := range map[string]struct {
		text, file                   string
		applied, observed, removable bool
	}{
		"as it was":              {env, "mine: hush-1", true, true, true},
		"changed":                {env, "mine: hush-2", false, true, true},
		"changed, of a command":  {run, "mine: hush-2", false, true, true},
		"changed, and the name":  {name, "mine: hush-2", false, false, false},
		"gone":                   {env, "other: 1", false, false, true},
		"gone, of a command":     {run, "other: 1", false, false, false},
		"gone, and the name":     {name, "other: 1", false, false, false},
		"half saved":             {env, "mine: *hush", false, false, true},
		"a tag":                  {env, "mine: !hush-2 x", false, false, true},
		"an expression of other": {env, "mine: 'hush{{ hush_2 }}'", false, false, false},
	} {
		t.Run(label, func(t *testing.T) {
			c := newCheckout(t, map[string]string{"m.yaml": test.text, "home/.deployster/vars.auto.yaml": "mine: hush-1\n"})
			w, files, err := c.pinned(nil)
			require.NoError(t, err)
			c.write("home/.deployster/vars.auto.yaml", test.file+"\n")
			digests := files.Digests()
			task := tasks.Task{Environment: "e", Host: "h", Revision: 1, Spec: definition.TaskSpec{Manifest: "m.yaml", Digest: digests["m.yaml"], Includes: digests}}
			source := manifest.Source{Name: "m.yaml", Data: []byte(test.text)}
			for p, want := range map[purpose]bool{applying: test.applied, observing: test.observed, removing: test.removable} {
				o, err := w.carriedFor(task, source, p)
				if err == nil {
					_, err = w.load(task, source, o)
				}
				if (err == nil) != want || err != nil && (strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "variable mine: it is secret")) {
					t.Errorf("for purpose %d: %v", p, err)
				}
			}
		})
	}
}
