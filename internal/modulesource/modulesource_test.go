package modulesource_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/gittest"
	"github.com/deployster-go/deployster/internal/modulesource"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/registrytest"
)

func TestSources(t *testing.T) {
	for text, want := range map[string]string{ // "" is a source
		"oci://registry.example/web:1":                                        "",
		"oci://registry.example:5000/a/web@sha256:" + strings.Repeat("1", 64): "",
		"oci://registry.example/web:1//modules/cache":                         "",
		"git::https://git.example/a/web.git":                                  "",
		"git::https://git.example/web.git//modules/web?ref=v1.2+3":            "",
		"git::ssh://git@git.example:2222/web.git?ref=feature/x":               "",
		"git::file:///srv/web.git":                                            "",

		"https://git.example/web.git":                             "write oci://",
		"oci://web:1":                                             "write oci://",
		"oci://me:secret@registry.example/web:1":                  "it has credentials",
		"oci://registry.example/web:1//../x":                      "no directory below it",
		"git::git@git.example:web.git":                            "write git::ssh://git@git.example/web.git//DIRECTORY?ref=TAG",
		"git@git.example:org/web.git//modules/web?ref=v1":         "write git::ssh://git@git.example/org/web.git//modules/web?ref=v1",
		"git::ext::sh -c 'touch x'":                               "spaces or control characters",
		"git::ext::touch%20x":                                     "after git:: there must be a URL",
		"git::http://git.example/web.git":                         "after git:: there must be a URL",
		"git::file://host/web.git":                                "after git:: there must be a URL",
		"git::--upload-pack=x":                                    "after git:: there must be a URL",
		"git::ssh://-oProxyCommand=x/web.git":                     "begins with a -",
		"git::ssh://-oProxyCommand=x@h/web.git":                   "begins with a -",
		"git::https://me:secret@git.example/web.git":              "it has credentials",
		"git::https://token@git.example/web.git":                  "it has credentials",
		"git::https://me:a/secret@git.example/web.git":            "after git:: there must be a URL",
		"git::https://git.example/web.git?access_token=secret":    "there can be one ref=",
		"git::https://git.example/web.git?ref=..&token=secret@x":  "there can be one ref=",
		"git::https://git.example/web.git?ref=--upload-pack=x":    "must be a branch, tag or commit",
		"git::https://git.example/web.git?ref=a:b":                "must be a branch, tag or commit",
		"git::https://git.example/web.git?ref=":                   "must be a branch, tag or commit",
		"git::https://git.example/web.git?ref=a..b":               "must be a branch, tag or commit",
		"git::https://git.example/web.git?depth=1":                "there can be one ref=",
		"git::https://git.example/web.git//.git/hooks":            "no directory below it",
		"git::https://git.example/web.git//../../x":               "no directory below it",
		"git::https://git.example/" + strings.Repeat("x", 10_000): "at most 1000 are possible",
	} {
		s, err := modulesource.Parse(text)
		switch {
		case want == "" && (err != nil || s.String() != text):
			t.Errorf("%s is %v, %v", text, s, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%.100s is %v, %v; want %q", text, s, err, want)
		}
		assert.True(t, err == nil || !strings.Contains(text, "secret") || !strings.Contains(err.Error(), "secret"), "it shows the password: %v", err)
	}
}

// repository is one of git, with a module in modules/web.
type repository struct{ gittest.Repository }

func newRepository(t *testing.T) repository {
	r := repository{gittest.New(t)}
	r.Write("README", "x")
	r.Write("modules/web/module.yaml", "resources: {}")
	r.Write("modules/web/files/run.sh", "#!/bin/sh")
	require.NoError(t, os.Chmod(filepath.Join(r.Dir, "modules/web/files/run.sh"), 0o755))
	require.NoError(t, os.Symlink("files/run.sh", filepath.Join(r.Dir, "modules/web/run")))
	r.Commit()
	return r
}

func (r repository) source(rest string) modulesource.Source {
	return parse(r, "git::file://"+r.Dir+rest)
}

func parse(t testing.TB, text string) modulesource.Source {
	s := must.Get(modulesource.Parse(text))(t)
	return s
}

func TestAModuleOfARepositoryIsWhatItsRefMeantWhenItWasPinned(t *testing.T) {
	r := newRepository(t)
	first := r.Git("rev-parse", "HEAD")
	r.Git("tag", "-a", "-m", "x", "v1")
	t.Setenv("GIT_DIR", "/nowhere")
	c := modulesource.In(filepath.Join(t.TempDir(), "cache"))
	s := r.source("//modules/web?ref=v1")
	pin, err := c.Resolve(t.Context(), s)
	require.True(t, err == nil && pin.Commit == first, "it is %+v, %v; want commit %s", pin, err, first)
	require.NoError(t, os.Unsetenv("GIT_DIR"))
	r.Write("modules/web/module.yaml", "resources: {a: {}}")
	second := r.Commit()
	r.Git("tag", "-f", "v1")

	for _, c := range []*modulesource.Cache{c, modulesource.In(filepath.Join(t.TempDir(), "another"))} {
		dir := must.Get(c.Directory(t.Context(), s, pin))(t)
		wantFile(t, dir, "module.yaml", "resources: {}")
		wantFile(t, dir, "run", "#!/bin/sh")
		info, err := os.Stat(filepath.Join(dir, "files/run.sh"))
		assert.True(t, err == nil && info.Mode()&0o100 != 0, "run.sh is %v, %v", info, err)
		assert.Error(t, must.Fail(os.Stat(filepath.Join(dir, "README"))), "it has what is beside the module")
	}
	for _, source := range []string{"//modules/web?ref=v1", "//modules/web", "//modules/web?ref=main", "//modules/web?ref=" + second} {
		now, err := c.Resolve(t.Context(), r.source(source))
		assert.True(t, err == nil && now.Commit == second && now.Digest != pin.Digest, "%s is %+v, %v", source, now, err)
	}
	again, err := c.Resolve(t.Context(), r.source("//modules/web?ref="+first))
	assert.True(t, err == nil && again == pin, "by its commit it is %+v, %v", again, err)
}

func TestAModuleMayBeOfARepositoryThatNamesObjectsBySHA256(t *testing.T) {
	r := repository{gittest.Repository{TB: t, Dir: t.TempDir()}}
	r.Git("init", "-q", "-b", "main", "--object-format=sha256")
	r.Write("web/module.yaml", "resources: {}")
	commit := r.Commit()
	s := r.source("//web?ref=main")
	pin, err := modulesource.In(t.TempDir()).Resolve(t.Context(), s)
	require.True(t, err == nil && pin.Commit == commit && len(commit) == 64, "it is %+v, %v; want commit %s", pin, err, commit)
	r.Write("web/module.yaml", "resources: {a: {}}")
	r.Commit()
	c := modulesource.In(t.TempDir())
	dir := must.Get(c.Directory(t.Context(), s, pin))(t)
	wantFile(t, dir, "module.yaml", "resources: {}")
	again, err := c.Resolve(t.Context(), r.source("//web?ref="+commit))
	assert.True(t, err == nil && again == pin, "by its commit it is %+v, %v", again, err)
	assert.ErrorContains(t, must.Fail(c.Resolve(t.Context(), r.source("//web?ref="+commit[:40]))), "this one has another", "by a part of its commit")
}

func wantFile(t *testing.T, dir, name, want string) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	assert.True(t, err == nil && string(text) == want, "%s is %q, %v", name, text, err)
}

func TestWhatLeadsOutOfAModuleIsNotFetched(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(r repository)
		rest    string
		says    []string
	}{
		"a link that leads out": {func(r repository) {
			require.NoError(r, os.Symlink("../../README", filepath.Join(r.Dir, "modules/web/out")))
			r.Commit()
		}, "//modules/web", []string{`"out" is a link to "../../README", which leaves the directory`}},
		"a submodule": {func(r repository) {
			r.Git("submodule", "--quiet", "add", r.Dir, "modules/web/sub")
			r.Commit()
		}, "//modules/web", []string{`"sub" is a submodule, which is not fetched`}},
		"no such directory": {func(repository) {}, "//modules/none", []string{`has no directory "modules/none"`}},
		"a file":            {func(repository) {}, "//README", []string{`has no directory "README"`}},
		"no such ref":       {func(repository) {}, "?ref=v9", []string{"check the URL, the ref v9", "git ls-remote file://"}},
		"no such commit":    {func(repository) {}, "?ref=" + strings.Repeat("1", 40), []string{"has no commit 1111"}},
		"too many files": {func(r repository) {
			blob := r.Git("rev-parse", "HEAD:README")
			var index strings.Builder
			for i := range 10_001 {
				fmt.Fprintf(&index, "100644 %s\tmany/%d\n", blob, i)
			}
			c := exec.Command("git", "-C", r.Dir, "update-index", "--index-info")
			c.Stdin = strings.NewReader(index.String())
			require.NoError(r, c.Run())
			r.Git("commit", "-q", "-m", "x")
		}, "//many", []string{"more than 10000 files"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t)
			c.arrange(r)
			pin, err := modulesource.In(t.TempDir()).Resolve(t.Context(), r.source(c.rest))
			require.Error(t, err, "it is %+v", pin)
			for _, text := range append(c.says, "fetching module git::file://"+r.Dir+c.rest) {
				assert.Contains(t, err.Error(), text, "%v does not say %q", err, text)
			}
		})
	}
}

func TestNoHookIsRun(t *testing.T) {
	r := newRepository(t)
	marker := filepath.Join(t.TempDir(), "ran")
	template := t.TempDir()
	for _, dir := range []string{filepath.Join(r.Dir, ".git", "hooks"), filepath.Join(template, "hooks")} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for _, hook := range []string{"post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc", "fsmonitor-watchman"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, hook), []byte("#!/bin/sh\ntouch "+marker+"\n"), 0o755))
		}
	}
	t.Setenv("GIT_TEMPLATE_DIR", template)
	require.NoError(t, must.Fail(modulesource.In(t.TempDir()).Resolve(t.Context(), r.source("//modules/web"))))
	assert.Error(t, must.Fail(os.Stat(marker)), "a hook was run")
}

func TestAModuleOfARegistry(t *testing.T) {
	var down atomic.Bool
	registry := registrytest.Serve(t, &registrytest.Registry{Between: func(w http.ResponseWriter, r *http.Request, images http.Handler) {
		if down.Load() {
			http.Error(w, "down", http.StatusForbidden)
			return
		}
		images.ServeHTTP(w, r)
	}})
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	name := "oci://" + registry.Host + "/modules/web"
	dir := t.TempDir()
	push := func(text string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "module.yaml"), []byte(text), 0o644))
		ref := must.Get(modulesource.Push(t.Context(), dir, parse(t, name+":1")))(t)
		return ref
	}
	first := push("first")
	c := modulesource.In(filepath.Join(t.TempDir(), "cache"))
	s := parse(t, name+":1")
	pin, err := c.Resolve(t.Context(), s)
	require.True(t, err == nil && first == name+"@"+pin.Digest, "it is %+v, %v; want %s", pin, err, first)
	push("second")
	for _, s := range []modulesource.Source{s, parse(t, first)} {
		at := must.Get(modulesource.In(filepath.Join(t.TempDir(), "another")).Directory(t.Context(), s, pin))(t)
		wantFile(t, at, "module.yaml", "first")
	}
	now, err := c.Resolve(t.Context(), s)
	assert.True(t, err == nil && now != pin, "now it is %+v, %v", now, err)

	// What the cache has needs no registry; what was altered in it is not used.
	down.Store(true)
	at := must.Get(c.Directory(t.Context(), s, pin))(t)
	wantFile(t, at, "module.yaml", "first")
	for _, path := range []string{at, filepath.Join(at, "module.yaml")} {
		require.NoError(t, os.Chmod(path, 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(at, "module.yaml"), []byte("evil!"), 0o644))
	if at, err := c.Directory(t.Context(), s, pin); err == nil {
		t.Errorf("what was altered is used from %s", at)
	}
	down.Store(false)
	if at, err = c.Directory(t.Context(), s, pin); err != nil {
		t.Fatal(err)
	}
	wantFile(t, at, "module.yaml", "first")
	at, err = c.Directory(t.Context(), parse(t, name+":1//none"), pin)
	assert.ErrorContains(t, err, `there is no directory "none" in it`, "it is %s", at)
}

func TestModulesArePushedToATag(t *testing.T) {
	name := "oci://127.0.0.1:1/modules/web" // nobody is asked
	for _, wrong := range []string{name, name + ":1//x", name + "@sha256:" + strings.Repeat("0", 64), "git::file:///x"} {
		assert.ErrorContains(t, must.Fail(modulesource.Push(t.Context(), t.TempDir(), parse(t, wrong))), "oci://REGISTRY/REPOSITORY:TAG", "pushed to %s", wrong)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"oci://r.example/a:1//b", "git::https://h/r.git//d?ref=v1", "git::ssh://git@h/r"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := modulesource.Parse(text)
		assert.True(t, err != nil || s.String() == text && !strings.ContainsAny(text, " \n\x00"), "%q is %v", text, s)
	})
}
