package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/inclusion"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/schema"
)

// pinned collects and keeps what a revision carries whose manifest is m.yaml.
func (c checkout) pinned(flags []vars.Flag, public ...string) (*TaskWorker, Carried, error) {
	w := c.tasks()
	w.Home, w.Variables = filepath.Join(c.dir, "home"), flags
	w.Outside = vars.Outside{
		Workspace: c.dir, Home: w.Home, Run: func(argv []string) (string, error) { return strings.Join(argv, " "), nil },
		Lookup: func(name string) (string, bool) { return "of " + name, name == vars.EnvironmentPrefix+"region" },
	}
	text := must.Get(ReadFile(filepath.Join(c.dir, "m.yaml")))(c)
	source := manifest.Source{Name: "m.yaml", Data: text}
	given, err := w.Read(nil, source)
	if err != nil {
		return w, nil, err
	}
	collected, err := Collect(c.dir, nil, given, source)
	if err == nil {
		err = collected.Pin(Pinning{Inputs: w.Inputs, Texts: w.Texts, Public: public, Schemas: map[string]*schema.Schema{}})
	}
	if err != nil {
		return w, nil, err
	}
	w.Variables = nil
	return w, collected.Files, w.Texts.KeepAll(collected.Files)
}

func (c checkout) values(w *TaskWorker, files Carried) (map[string]any, error) {
	assigned, err := w.Assignments(w.Texts, files.Digests())
	if err != nil {
		return nil, err
	}
	in, err := w.Evaluate(LoadOptions{Assigned: assigned, Included: w.Texts.Files(files.Digests())})
	if err != nil {
		return nil, err
	}
	return in.Set(), nil
}

const fileOf = "resources: {a: {type: deployster/file, config: {path: a, content: '"

func TestVariablesAreWhatTheyWereInEveryType(t *testing.T) {
	c := newCheckout(t, map[string]string{
		"m.yaml":         fileOf + "{{ all }}{{ given }}'}}}",
		"vars.auto.yaml": "all: {whole: 1, point: 1.0, large: 1e30, small: -0.0, text: '1.0', none: null, yes: true, list: [1, 2.0], part: '{% include \"part\" %}'}\nnobody: 1\n",
		"part":           "one",
	})
	w, files, err := c.pinned([]vars.Flag{{Name: "given", Value: "1.10"}, {Name: "nothing", Value: "2"}})
	require.NoError(t, err)
	want, err := c.values(w, files)
	require.True(t, err == nil && len(want) == 2 && want["given"] == "1.10", "it carries %v, %v", want, err)
	all, _ := want["all"].(map[string]any)
	assert.True(t, all["point"] == 1.0 && all["whole"] == int64(1) && all["text"] == "1.0" && all["part"] == "one" &&
		reflect.DeepEqual(all["list"], []any{int64(1), 2.0}), "it carries %#v", all)
	c.write("part", "two")
	c.write("vars.auto.yaml", "all: [")
	got, err := c.values(w, files)
	assert.True(t, err == nil && reflect.DeepEqual(got, want), "after files were edited it is %v, %v, want %v", got, err, want)
}

// What is declared as a text is the text that the file has, when it is applied from a revision, too.
func TestARevisionCarriesTheTextsOfNumbers(t *testing.T) {
	c := newCheckout(t, map[string]string{
		"m.yaml": "variables: {version: {type: string}, mode: {type: object, additionalProperties: {type: string}}, pin: {type: string, writeOnly: true}, n: {type: number}}\n" +
			"resources: {a: {type: deployster/file, config: {path: a, content: '{{ version }}{{ mode }}{{ n }}'}}, " +
			"b: {type: deployster/command, config: {image: i, check: ['true'], apply: ['true'], secret_env: {PIN: '{{ pin }}'}}}}",
		"vars.auto.yaml": "version: 1.10\nmode: {file: 0644, on: True, 'a b': 1e3, deep: \"1.0\"}\nn: 1.0\npin: 0123\n",
	})
	w, files, err := c.pinned(nil)
	require.NoError(t, err)
	want := map[string]any{
		"version": "1.10", "n": 1.0, "pin": "0123", "mode": map[string]any{"file": "0644", "on": "True", "a b": "1e3", "deep": "1.0"},
	}
	text := must.Get(ReadFile(filepath.Join(c.dir, "m.yaml")))(t)
	assigned := must.Get(w.Assignments(w.Texts, files.Digests()))(t)
	in := must.Get(w.Load([]manifest.Source{{Name: "m.yaml", Data: text}}, LoadOptions{Assigned: assigned, Included: w.Texts.Files(files.Digests())}))(t)
	assert.Equal(t, want, in.Set())
	assert.NotContains(t, string(files[revision.VariablesName]), "0123")
	c.write("vars.auto.yaml", "pin: 00123\n")
	assert.ErrorContains(t, must.Fail(w.Assignments(w.Texts, files.Digests())), "it has another value in")
	c.write("vars.auto.yaml", "pin: '0123'\n")
	assert.ErrorContains(t, must.Fail(w.Assignments(w.Texts, files.Digests())), "it has another value in", "a number became a text")
}

func TestASecretVariableIsCarriedAsAReference(t *testing.T) {
	c := newCheckout(t, map[string]string{
		"m.yaml": "resources: {a: {type: deployster/command, config: {image: i, check: ['{{ plain }}'], apply: ['true'], secret_env: '{{ env }}'}}," +
			" b: {type: other/type:1, config: {x: '{{ unknown }}'}}, c: {type: deployster/file, config: {path: a, content: '{{ linked }}{{ mine }}{{ named }}'}}}",
		"vars.auto.yaml":                  "plain: 1\nenv: {A: '{{ deep }}'}\nunknown: hush-1\n",
		"vars.a.auto.yaml":                "plain: hush-no\n",
		"given.yaml":                      "deep: hush-2\n",
		"home/.deployster/vars.auto.yaml": "mine: hush-3\nnamed: public\n",
	})
	outside := filepath.Join(t.TempDir(), "vars.yaml")
	require.NoError(t, os.WriteFile(outside, []byte("linked: hush-4\n"), 0o600))
	c.link("vars.z.auto.yaml", outside)
	w, files, err := c.pinned([]vars.Flag{{File: filepath.Join(c.dir, "given.yaml")}}, "named")
	require.NoError(t, err)
	text := string(files[revision.VariablesName])
	for _, hidden := range []string{"hush-1", "hush-2", "hush-3", "hush-4"} {
		assert.NotContains(t, text, hidden)
	}
	for _, known := range []string{`"hush-no"`, `"public"`, `"~/.deployster/vars.auto.yaml"`, `"given.yaml"`, `"vars.z.auto.yaml"`} {
		assert.Contains(t, text, known)
	}
	wantRefused := func(want string) {
		t.Helper()
		assert.ErrorContains(t, must.Fail(w.Assignments(w.Texts, files.Digests())), want)
	}
	must.Get(w.Assignments(w.Texts, files.Digests()))(t)
	c.write("given.yaml", "# with a remark\ndeep: hush-2\nmore: 1\n")
	_, err = w.Assignments(w.Texts, files.Digests())
	assert.NoError(t, err, "what else is in the file counts")
	c.write("given.yaml", "deep: hush-5\n")
	wantRefused("variable deep: it is secret, so the revision carries only its hash, and it has another value in " + filepath.Join(c.dir, "given.yaml"))
	c.write("given.yaml", "more: 1\n")
	wantRefused("does not set it any more")
	c.write("given.yaml", "deep: [")
	wantRefused("cannot be read")
	c.write("given.yaml", "deep: hush-2\n")
	require.NoError(t, os.Remove(filepath.Join(c.dir, ".deployster", "objects", "salt")))
	wantRefused("is missing: put it back")
	// With an empty salt no revision can be made either, so that is no remedy.
	c.write(".deployster/objects/salt", "")
	wantRefused("is not what it was when it was stored: put it back from a copy of the directory of the log; without one, remove it and make new revisions")
	_, _, err = w.Texts.hash(vars.Assignment{Name: "deep", Value: "x"})
	assert.ErrorContains(t, err, "without one, remove it and make new revisions", "making a revision with an empty salt")
	require.NoError(t, os.Remove(filepath.Join(c.dir, ".deployster", "objects", "salt")))
	must.Get(w.Texts.objects.MakeSalt())(t)
	wantRefused("is not what it was")
}

func TestWhatCannotBeReadAgainIsNotReferredTo(t *testing.T) {
	c := newCheckout(t, map[string]string{
		"m.yaml": "resources: {a: {type: deployster/command, config: {image: i, check: ['{{ bytes }}'], apply: ['true'], secret_env: {A: '{{ given }}'}}}}",
	})
	var invalid *InputError
	_, _, err := c.pinned([]vars.Flag{{Name: "given", Value: "hush"}})
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "m.yaml:1:") || !strings.Contains(err.Error(), "resources.a.config.secret_env.A: is secret and reads --var given") || strings.Contains(err.Error(), "hush") {
		t.Errorf("of a secret --var: %v", err)
	}
	_, files, err := c.pinned([]vars.Flag{{Name: "given", Value: "hush"}}, "given")
	assert.True(t, err == nil && strings.Contains(string(files[revision.VariablesName]), "hush"), "of one that is none: %v", err)
	c.write("vars.auto.yaml", "bytes: '{% include name %}'\n")
	if _, _, err := c.pinned(nil); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "vars.auto.yaml:1:1: bytes: it includes a file whose name is known only when") {
		t.Errorf("of what may be any file: %v", err)
	}
}

func TestFilesThatChangeWhileTheyAreReadAreRefused(t *testing.T) {
	c := newCheckout(t, map[string]string{"part": "one", "vars.auto.yaml": "a: 1\nb: 2\n"})
	w := c.tasks()
	for name, text := range map[string]string{"part": "two", "vars.auto.yaml": "a: 1\nb: 3\n"} {
		given := must.Get(w.Read(nil))(t)
		read := collector{inclusion.New(c.dir, Carried{"part": []byte("one"), "kept": []byte("of another revision")}, nil), c.dir}
		assert.NoError(t, read.unchanged(&Collection{}, Carried{"kept": nil}, given), "before %s is changed", name)
		c.write(name, text)
		assert.ErrorContains(t, read.unchanged(&Collection{}, Carried{"kept": nil}, given), name+" was changed while it was read", name)
		c.write("part", "one")
	}
}

// What <(command) names, and a FIFO, can be read once: what they hold is carried where it
// is no secret, and is not taken for another when it is gone.
func TestVariablesMayComeFromAPipe(t *testing.T) {
	c := newCheckout(t, map[string]string{"m.yaml": fileOf + "{{ piped }}'}}}"})
	from := func(path string) (w *TaskWorker, files Carried, err error) {
		w, files, err = c.pinned([]vars.Flag{{File: path}}, "piped")
		return w, files, err
	}
	fifo := filepath.Join(c.dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	go func() { _ = os.WriteFile(fifo, []byte("piped: one\n"), 0o600) }()
	w, files, err := from(fifo)
	require.NoError(t, err)
	assert.True(t, must.Get(c.values(w, files))(t)["piped"] == "one", "of a FIFO it carries")
	substituted := func() string {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() { _ = r.Close() })
		must.Get(w.WriteString("piped: two\n"))(t)
		require.NoError(t, w.Close())
		return fmt.Sprintf("/dev/fd/%d", r.Fd())
	}
	w, files, err = from(substituted())
	require.NoError(t, err)
	assert.True(t, must.Get(c.values(w, files))(t)["piped"] == "two", "of a pipe it carries")
	var invalid *InputError
	path := substituted()
	_, _, err = c.pinned([]vars.Flag{{File: path}})
	for _, says := range []string{path, "piped", "no regular file", "--allow-logged piped"} {
		require.ErrorAs(t, err, &invalid)
		assert.ErrorContains(t, err, says)
	}
}

func TestAManifestThatChangesWhileItIsReadIsRefused(t *testing.T) {
	c := newCheckout(t, map[string]string{"m.yaml": "resources: {}"})
	collected := must.Get(Collect(c.dir, nil, nil, manifest.Source{Name: "m.yaml", Data: []byte("resources: {}")}))(t)
	require.NoError(t, collected.Unchanged(c.dir))
	c.write("m.yaml", "resources: {} # saved")
	assert.ErrorContains(t, collected.Unchanged(c.dir), "m.yaml was changed while it was read")
}

// What a manifest declares is carried as it was found out, and found out nowhere else; a file
// that is a secret as a whole is read again.
func TestDeclaredVariablesAreFoundOutOnce(t *testing.T) {
	c := newCheckout(t, map[string]string{
		"m.yaml": "variables:\n  key: {type: string, writeOnly: true, file: key}\n  region: {type: string}\n  made: {command: [echo, made]}\n" +
			"  size: {type: string}\n  all: {default: '{{ region }} {{ made }} {{ key }} {{ size }}'}\n" + fileOf + "{{ all }}'}}}",
		"key": "hush\n",
	})
	w, files, err := c.pinned([]vars.Flag{{Name: "size", Value: "15"}})
	require.NoError(t, err)
	assert.NotContains(t, string(files[revision.VariablesName]), "hush", "it carries a secret")
	w.Outside = vars.Outside{}
	content := func() (any, error) {
		assigned, err := w.Assignments(w.Texts, files.Digests())
		if err != nil {
			return nil, err
		}
		in, err := w.Load([]manifest.Source{{Name: "m.yaml", Data: files["m.yaml"]}}, LoadOptions{Assigned: assigned, Here: true})
		if err != nil {
			return nil, err
		}
		return in.Variables["all"], nil
	}
	got, err := content()
	assert.True(t, err == nil && got == "of DEPLOYSTER_VAR_region echo made hush 15", "it is %v, %v", got, err)
	for text, want := range map[string]string{"altered-key": "it has another value in", "hush": ""} {
		c.write("key", text)
		if _, err := content(); err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), text)) {
			t.Errorf("of %s: %v", text, err)
		}
	}
}

// A secret is one by its declaration, also where nothing secret reads it, and in whatever reads it there.
func TestDeclaredSecretsAreReferredTo(t *testing.T) {
	const declared = "variables: {password: {writeOnly: true}, hidden: {writeOnly: true, command: [echo, hush]}}\n"
	c := newCheckout(t, map[string]string{"m.yaml": declared + fileOf + "{{ password }}{{ hidden }}'}}}"})
	for _, what := range []string{"--var password", "the command at m.yaml:1:"} {
		_, _, err := c.pinned([]vars.Flag{{Name: "password", Value: "hush"}})
		require.ErrorContains(t, err, "is secret and reads "+what)
		assert.NotContains(t, err.Error(), "hush")
	}
	c.write("m.yaml", declared[:strings.Index(declared, ", hidden")]+"}\n"+fileOf+"x'}}}")
	text, _ := ReadFile(filepath.Join(c.dir, "m.yaml"))
	collected := must.Get(Collect(c.dir, nil, nil, manifest.Source{Name: "m.yaml", Data: text}))(t)
	uses, err := collected.SecretUses("password", "other")
	assert.True(t, err == nil && len(uses) == 1 && uses[0].Path == "variables.password", "uses: %v %v", uses, err)
}

func TestWhatRevisionsWriteOutAtSecretPlacesIsHidden(t *testing.T) {
	texts := NewTexts(filepath.Join(t.TempDir(), "objects"), t.TempDir(), nil)
	all := Carried{
		"m.yaml": []byte(`resources:
  a:
    type: deployster/container
    config:
      image: shown-image
      secret_env:
        PASSWORD: hunter2-literal
        NUMBER: 12345678
        QUOTED: 'it''s hidden'
        FOLDED: >-
          folded1
          folded2
        REFERENCE: "{{ shown_variable }}"
        EXPRESSION: "{{ 'in-expression' ~ x }}"
        FILE: "{% include 'secrets/key' %}"
        SOME: "{% include 'tokens/' ~ host %}"
  b:
    type: example/foreign
    config: {env: {PASSWORD: shown-foreign}}
`),
		"old.yaml":    []byte("resources: {a: {type: deployster/http, config: {url: shown-url, headers: {Authorization: bearer-token}}}}"),
		"secrets/key": []byte("key-line-1\n{% include 'secrets/more' %}\n"), "secrets/more": []byte("key-line-2\n"), "tokens/h1": []byte("token-of-h1"),
		"plain": []byte("shown-plain"), "half": []byte("resources: ["),
		revision.VariablesName: []byte("{}"),
	}
	require.NoError(t, texts.KeepAll(all))
	now, before := all.Digests(), map[string]string{}
	before["old.yaml"] = now["old.yaml"]
	delete(now, "old.yaml")
	before["lost"] = strings.Repeat("0", 64)
	mask := texts.Masking(before, now)
	for _, text := range all {
		got := mask(string(text))
		for _, hidden := range []string{"hunter2", "12345678", "hidden", "folded", "in-expression", "key-line", "token-of", "bearer"} {
			assert.NotContains(t, got, hidden)
		}
		for word := range strings.FieldsSeq(string(text)) {
			assert.True(t, !strings.HasPrefix(word, "shown") || strings.Contains(got, word), "%s is not shown in %s", word, got)
		}
	}
}

func TestAnEngineIsOpenedThoughWhoAskedFirstGaveUp(t *testing.T) {
	p := NewEnginePool(NewHosts("none.yaml"), nil)
	first, second := &pooled{err: context.Canceled}, &pooled{connection: &Connection{}}
	for _, c := range []*pooled{first, second} {
		c.once.Do(func() {})
	}
	key := poolKey{host: "one"}
	p.opened[key] = first
	_, err := p.Connection(t.Context(), "one")
	assert.True(t, err != nil && !errors.Is(err, context.Canceled), "it was not tried again: %v", err)
	p.opened[key] = second
	got, err := p.Connection(t.Context(), "one")
	assert.True(t, got == second.connection && err == nil, "the engine that is open was not taken: %v", err)
}
