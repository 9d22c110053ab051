package manifest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
	"github.com/deployster-go/deployster/manifest"
)

func load(t testing.TB, variables map[string]any, texts ...string) (*manifest.Manifest, error) {
	var sources []manifest.Source
	for i, text := range texts {
		sources = append(sources, manifest.Source{Name: fmt.Sprintf("%c.yaml", 'a'+i), Data: []byte(text)})
	}
	return manifest.Load(sources, manifest.Options{
		Variables: variables, Evaluator: expression.New(t.TempDir()), Workspace: "/ws", Home: "/home/me",
	})
}

func mustLoad(t testing.TB, variables map[string]any, texts ...string) *manifest.Manifest {
	return must.Get(load(t, variables, texts...))(t)
}

func names(m *manifest.Manifest) string {
	var out []string
	for _, r := range m.Resources {
		out = append(out, r.Name)
	}
	return strings.Join(out, " ")
}

const disks = `
plugs:
  account:
    path: '~/keys/{{ project }}.json'
    read_only: true
    resource_types: ['acme/.*']
  docker: {path: /var/run/docker.sock}
resources:
  www_vm:
    type: acme/deployster-gcp-vm
    dependencies:
      disk: my_data_disk
    config:
      name: www_vm
      zone: '{{ disk.state.zone }}'
      ports: [80, 443]
      ratio: 0.5
      when: 2020-01-02
      nothing: ~
      yes_is_text: yes
    timeout: 1m30s
  my_data_disk:
    type: acme/deployster-gcp-disk
    readonly: true
    config: {size: '200gb'}
`

func TestLoad(t *testing.T) {
	m := mustLoad(t, map[string]any{"project": "blue"}, disks)
	assert.Equal(t, "my_data_disk www_vm", names(m))
	vm := m.Resource("www_vm")
	assert.Equal(t, map[string]any{
		"name": "www_vm", "zone": "{{ disk.state.zone }}", "ports": []any{int64(80), int64(443)}, "ratio": 0.5,
		"when": "2020-01-02", "nothing": nil, "yes_is_text": "yes",
	}, vm.Config)
	assert.True(t, vm.Timeout == 90*time.Second && !vm.ReadOnly &&
		m.Resource("my_data_disk").ReadOnly, "timeout %s, readonly %t", vm.Timeout, vm.ReadOnly)
	assert.Equal(t, "my_data_disk", vm.Dependencies["disk"])
	assert.Equal(t, []string{"my_data_disk"}, m.Dependencies("www_vm"))
	assert.True(t, m.Resource("other") == nil && m.Plug("other") == nil &&
		m.Dependencies("other") == nil, "something was found that is not there")
	account, docker := m.Plug("account"), m.Plug("docker")
	assert.True(t, account.Path == "/home/me/keys/blue.json" && account.ReadOnly && !docker.ReadOnly, "plugs: %+v %+v", account, docker)
	assert.True(t, m.Plugs[0] == account && m.Plugs[1] == docker, "plugs are not in the order of declaration")
	for path, at := range map[string]string{
		"": "a.yaml:13:5", "zone": "a.yaml:15:13", "ports": "a.yaml:16:14", "ports.1": "a.yaml:16:19",
		"missing.deeper": "a.yaml:13:5", "ports.7": "a.yaml:16:7",
	} {
		var keys []string
		if path != "" {
			keys = strings.Split(path, ".")
		}
		assert.Equal(t, at, vm.At(keys...).String(), path)
	}
}

func TestTheOrderIsThatOfDeclarationWhereDependenciesLeaveItOpen(t *testing.T) {
	r := func(name string, deps ...string) string {
		text := "  " + name + ":\n    type: x\n    dependencies:\n"
		for i, d := range deps {
			text += fmt.Sprintf("      d%d: %s\n", i, d)
		}
		return text
	}
	m := mustLoad(t, nil, "resources:\n"+r("e", "c")+r("d")+r("c"), "resources:\n"+r("b", "e", "d")+r("a"))
	assert.Equal(t, "d c e b a", names(m))
}

func TestPlugPaths(t *testing.T) {
	for written, want := range map[string]string{
		"/var/run/docker.sock":         "/var/run/docker.sock",
		"data":                         "/ws/data",
		"./data/../x/":                 "/ws/x",
		"~":                            "/home/me",
		"~/x":                          "/home/me/x",
		"'{{ dir }}/x'":                "/srv/x",
		"persistentvolumeclaim:data/x": "persistentvolumeclaim:data/x",
	} {
		m := mustLoad(t, map[string]any{"dir": "/srv"}, "plugs:\n  p:\n    path: "+written+"\nresources: {}\n")
		assert.Equal(t, want, m.Plug("p").Path, written)
	}
}

func TestPlugsAllow(t *testing.T) {
	tests := []struct {
		plug, name, typ string
		allow           bool
		description     string
	}{
		{"", "web", "acme/vm", true, "neither list: open to all"},
		{"resource_names: [we]", "web", "acme/vm", true, "anchored at the start only"},
		{"resource_names: [eb]", "web", "acme/vm", false, "not in the middle"},
		{"resource_names: [web$]", "web2", "acme/vm", false, "unless the pattern ends it"},
		{"resource_names: ['a|web']", "web", "x", true, "an alternative is anchored as a whole"},
		{"resource_names: ['a|b']", "web-b", "x", false, "both alternatives are"},
		{"resource_names: [db], resource_types: [acme/]", "web", "acme/vm", true, "one kind is enough"},
		{"resource_names: [db], resource_types: [other/]", "web", "acme/vm", false, "but one is needed"},
		{"resource_types: ['{{ vendor }}/.*']", "web", "acme/vm", true, "a pattern may be an expression"},
		{"resource_names: '{{ list }}'", "web", "acme/vm", true, "and so may the list"},
		{"resource_names: []", "web", "acme/vm", false, "an empty list is a list"},
		{"resource_names: ~", "web", "acme/vm", true, "nothing is none"},
	}
	for _, test := range tests {
		m := mustLoad(t, map[string]any{"vendor": "acme", "list": []any{"web"}}, "plugs: {p: {path: /x, "+test.plug+"}}\nresources: {}\n")
		assert.Equal(t, test.allow, m.Plug("p").Allows(test.name, test.typ), test.description)
	}
}

func TestAnchorsAndMergeKeys(t *testing.T) {
	m := mustLoad(t, nil, `
resources:
  base: &base
    type: acme/x
    config: &config {size: 1, tags: [a, b], deep: {x: 1}}
  same: *base
  more:
    <<: *base
    config:
      <<: [{size: 2}, *config]
      deep: {y: 2}
`)
	got := m.Resource("same").Config
	assert.True(t, reflect.DeepEqual(got, m.Resource("base").Config) && m.Resource("same").Type == "acme/x", "alias: %v", got)
	more := m.Resource("more")
	want := map[string]any{"size": int64(2), "tags": []any{"a", "b"}, "deep": map[string]any{"y": int64(2)}}
	assert.Equal(t, "acme/x", more.Type)
	assert.Equal(t, want, more.Config)
	assert.Equal(t, "a.yaml:5:41", more.At("tags", "1").String(), "position of what was merged in")
}

func TestSelect(t *testing.T) {
	m := mustLoad(t, nil, `
resources:
  a: {type: x}
  b: {type: x, dependencies: {a: a}}
  c: {type: x, dependencies: {b: b}}
  d: {type: x}
`)
	s, err := m.Select([]string{"b"})
	assert.True(t, err == nil && names(s) == "a b" && s.Resource("c") == nil && s.Resource("a") != nil, "selected %v, %v", s, err)
	assert.EqualError(t, must.Fail(m.Select([]string{"zz"})), `there is no resource "zz"; there are a, b, c, d`)
	_, err = mustLoad(t, nil, "resources: {frontend: {type: x}}").Select([]string{"fronted"})
	assert.EqualError(t, err, `there is no resource "fronted", did you mean "frontend"?`)
}

func TestDependents(t *testing.T) {
	m := mustLoad(t, nil, `
resources:
  c: {type: x, dependencies: {b: b}}
  b: {type: x, dependencies: {a: a}}
  a: {type: x}
  d: {type: x}
`)
	for _, tc := range []struct{ targets, want string }{{"a", "a b c"}, {"b", "b c"}, {"c", "c"}, {"d c", "c d"}, {"c a", "a b c"}} {
		assert.Equal(t, tc.want, strings.Join(must.Get(m.Dependents(strings.Fields(tc.targets)))(t), " "), tc.targets)
	}
	assert.EqualError(t, must.Fail(m.Dependents([]string{"zz"})), `there is no resource "zz"; there are a, b, c, d`)
}

func TestLifecycleOfAResource(t *testing.T) {
	m := mustLoad(t, nil, "resources:\n  a: {type: x, ignore_changes: [content, 'ports[0].host'], prevent_destroy: true}\n  b: {type: x, prevent_destroy: }\n")
	a, b := m.Resource("a"), m.Resource("b")
	if got := a.IgnoreChanges; !slices.Equal(got, []string{"content", "ports[0].host"}) || !a.PreventDestroy || a.PreventedAt().String() != "a.yaml:2:60" {
		t.Errorf("%q, %v at %s", got, a.PreventDestroy, a.PreventedAt())
	}
	assert.False(t, b.PreventDestroy)
	assert.Nil(t, b.IgnoreChanges)
	m = mustLoad(t, nil, "resources:\n  a: {type: x, ignore_drift: [content, 'ports[0].host', labels.build/id]}\n  b: {type: x, ignore_drift: }\n")
	assert.Equal(t, []string{"content", "ports[0].host", "labels.build/id"}, m.Resource("a").IgnoreDrift)
	assert.Empty(t, m.Resource("b").IgnoreDrift)
}

func TestNothingIsNotReadOnly(t *testing.T) {
	m := mustLoad(t, nil, "plugs: {p: {path: /x, read_only: }}\nresources: {r: {type: x, readonly: }}")
	assert.False(t, m.Resources[0].ReadOnly, "the resource is read-only")
}

func TestHash(t *testing.T) {
	one := mustLoad(t, nil, "plugs: {p: {path: ~/x}}\nresources:\n  a: {type: x, config: {k: 1, l: [2]}}\n  b: {type: y}\n").Hash()
	for what, texts := range map[string][]string{
		"other order":          {"resources:\n  b: {type: y}\n  a: {config: {l: [2], k: 1}, type: x}\nplugs: {p: {path: ~/x}}\n"},
		"several files":        {"resources: {b: {type: y}}", "resources: {a: {type: x, config: {k: 0x1, l: [2]}}}", "plugs: {p: {path: ~/x}}"},
		"other notation":       {"# hello\nplugs:\n  'p':\n    path: \"~/x\"\nresources: {a: {type: x, config: {k: 1, l: [2]}, readonly: false}, b: {type: y, dependencies: , readonly: }}"},
		"what nothing removes": {"plugs: {p: {path: ~/x}}\nresources:\n  a: {type: x, config: {k: 1, l: [2]}, prevent_destroy: false}\n  b: {type: y}\n"},
		"what is no drift":     {"plugs: {p: {path: ~/x}}\nresources:\n  a: {type: x, config: {k: 1, l: [2]}, ignore_drift: [k]}\n  b: {type: y}\n"},
	} {
		assert.Equal(t, one, mustLoad(t, nil, texts...).Hash(), "%s changes the hash", what)
	}
	for what, text := range map[string]string{
		"config":  "plugs: {p: {path: ~/x}}\nresources:\n  a: {type: x, config: {k: 2, l: [2]}}\n  b: {type: y}\n",
		"kind":    "plugs: {p: {path: ~/x}}\nresources:\n  a: {type: x, config: {k: '1', l: [2]}}\n  b: {type: y}\n",
		"plug":    "plugs: {p: {path: ~/y}}\nresources:\n  a: {type: x, config: {k: 1, l: [2]}}\n  b: {type: y}\n",
		"timeout": "plugs: {p: {path: ~/x}}\nresources:\n  a: {type: x, config: {k: 1, l: [2]}, timeout: 1s}\n  b: {type: y}\n",
	} {
		assert.NotEqual(t, one, mustLoad(t, nil, text).Hash(), what)
	}
	assert.Equal(t, 64, len(one), "%q is not a SHA-256 in hexadecimal", one)
}

func TestCheckPlugs(t *testing.T) {
	dir := t.TempDir()
	m := mustLoad(t, nil, fmt.Sprintf("plugs:\n  there: {path: %s}\n  gone: {path: %s/gone}\nresources: {}\n", dir, dir))
	err := m.CheckPlugs()
	want := fmt.Sprintf("a.yaml:3:3: plugs.gone.path: %s/gone: there is no such file or directory", dir)
	var invalid *manifest.Error
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, want, err.Error())
	assert.NoError(t, mustLoad(t, nil, "plugs: {p: {path: "+dir+"}}\nresources: {}").CheckPlugs())
}

func TestReadFiles(t *testing.T) {
	dir := t.TempDir()
	good, large := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "large.yaml")
	require.NoError(t, os.WriteFile(good, []byte("x"), 0o600))
	require.NoError(t, os.WriteFile(large, nil, 0o600))
	require.NoError(t, os.Truncate(large, 1<<40)) // sparse: reading it would never end
	sources, err := manifest.ReadFiles([]string{good})
	require.True(t, err == nil && len(sources) == 1 && string(sources[0].Data) == "x" && sources[0].Name == good, "%v %v", sources, err)
	_, err = manifest.ReadFiles([]string{good, dir, filepath.Join(dir, "none"), large, "/dev/zero", good})
	assert.EqualError(t, err, strings.NewReplacer("DIR", dir).Replace(`DIR: is a directory; give the files in it
DIR/none: there is no such file
DIR/large.yaml: has 1099511627776 bytes or more; at most 8388608 (8 MiB) are possible
/dev/zero: is a device, not a file: write what it is to say into a file, or give that as /dev/stdin or <(COMMAND)
DIR/good.yaml: is given twice`))
	latin := filepath.Join(dir, "caf\xe9.yaml")
	require.NoError(t, os.WriteFile(latin, []byte("x"), 0o600))
	_, err = manifest.ReadFiles([]string{latin})
	assert.True(t, err != nil && strings.HasSuffix(err.Error(), ": the name of the file is not valid UTF-8; rename it"), "got %v", err)
}

// Nobody writes to the FIFO: what opens it would wait for ever.
func TestWhatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	require.NoError(t, os.Symlink("fifo", link))
	for path, want := range map[string]string{fifo: "is a FIFO, not a file", link: "is a FIFO, not a file", "/dev/zero": "is a device, not a file"} {
		assert.ErrorContains(t, must.Fail(manifest.ReadFiles([]string{path})), want, path)
	}
}

// What <(COMMAND) names is read, also by a link to it.
func TestAnInheritedPipeIsRead(t *testing.T) {
	for name, path := range map[string]func(fd uintptr) string{
		"/dev/fd":         func(fd uintptr) string { return fmt.Sprintf("/dev/fd/%d", fd) },
		"/proc/self/fd":   func(fd uintptr) string { return fmt.Sprintf("/proc/self/fd/%d", fd) },
		"a relative link": func(fd uintptr) string { return linkTo(t, fmt.Sprintf("/dev/fd/%d", fd)) },
	} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		must.Get(w.WriteString("resources: {}\n"))(t)
		require.NoError(t, w.Close())
		sources, err := manifest.ReadFiles([]string{path(r.Fd())})
		require.NoError(t, err, name)
		assert.Equal(t, "resources: {}\n", string(sources[0].Data), name)
		require.NoError(t, r.Close())
	}
}

func linkTo(t *testing.T, path string) string {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	require.NoError(t, os.Symlink(path, first))
	require.NoError(t, os.Symlink("first", second))
	return second
}

// Each file of testdata/problems holds manifests, with what is said about them; see yamltest.
func TestProblems(t *testing.T) {
	yamltest.Problems(t, func(files ...string) error {
		_, err := load(t, map[string]any{"region": "eu", "_version": "1.0", "my-var": 1}, files...)
		return err
	})
}

func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// What is hostile as YAML is refused by package yamlfile, and tested there.
func TestHostileFilesAreRefusedQuickly(t *testing.T) {
	wrong, names := ringtest.Cases(2_000, 10_000), ringtest.Cases(5_000, 80_000)
	tests := map[string]struct{ text, want string }{
		"many copies of a large resource": {
			"resources:\n  a: &a {type: x, config: {l: [" + strings.Repeat("1, ", 2000) + "]}}\n" + numbered(500, "  r%d: *a\n"),
			"stand for more than 500000 values",
		},
		"indentation": {"resources: {}\nx:\n" + func() string {
			var b strings.Builder
			for i := range 1500 {
				b.WriteString(strings.Repeat(" ", i+1) + "a:\n")
			}
			return b.String()
		}(), `unknown key "x"`},
		"everything wrong": {
			"resources:\n" + numbered(wrong, "  resource%[1]d: {type: x, dependencies: {d: resurce%[1]d}, config: {c: '{{ wrong }}'}}\n"),
			fmt.Sprintf("and %d more problems", 2*wrong-1000),
		},
		"a long expression": {
			"resources: {r: {type: x, config: {c: '" + numbered(names, "{{n%d}}") + "'}}}", fmt.Sprintf("and %d more problems", names-1000),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, nil, test.text)
			assert.ErrorContains(t, err, test.want)
		})
	}
}
