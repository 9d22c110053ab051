package manifest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/manifest"
)

// load reads texts as the files a.yaml, b.yaml, …
func load(t testing.TB, variables map[string]any, texts ...string) (*manifest.Manifest, error) {
	t.Helper()
	var sources []manifest.Source
	for i, text := range texts {
		sources = append(sources, manifest.Source{Name: fmt.Sprintf("%c.yaml", 'a'+i), Data: []byte(text)})
	}
	return manifest.Load(sources, manifest.Options{
		Variables: variables, Evaluator: expression.New(t.TempDir()), Workspace: "/ws", Home: "/home/me",
	})
}

func mustLoad(t testing.TB, variables map[string]any, texts ...string) *manifest.Manifest {
	t.Helper()
	m, err := load(t, variables, texts...)
	if err != nil {
		t.Fatal(err)
	}
	return m
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
	if got := names(m); got != "my_data_disk www_vm" {
		t.Errorf("order: %s", got)
	}
	vm := m.Resource("www_vm")
	want := map[string]any{
		"name": "www_vm", "zone": "{{ disk.state.zone }}", "ports": []any{int64(80), int64(443)}, "ratio": 0.5,
		"when": "2020-01-02", "nothing": nil, "yes_is_text": "yes",
	}
	if !reflect.DeepEqual(vm.Config, want) {
		t.Errorf("config: %#v", vm.Config)
	}
	if vm.Timeout != 90*time.Second || vm.ReadOnly || !m.Resource("my_data_disk").ReadOnly {
		t.Errorf("timeout %s, readonly %t", vm.Timeout, vm.ReadOnly)
	}
	if vm.Dependencies["disk"] != "my_data_disk" || !reflect.DeepEqual(m.Dependencies("www_vm"), []string{"my_data_disk"}) {
		t.Errorf("dependencies: %v %v", vm.Dependencies, m.Dependencies("www_vm"))
	}
	if m.Resource("other") != nil || m.Plug("other") != nil || m.Dependencies("other") != nil {
		t.Error("something was found that is not there")
	}
	account, docker := m.Plug("account"), m.Plug("docker")
	if account.Path != "/home/me/keys/blue.json" || !account.ReadOnly || docker.ReadOnly {
		t.Errorf("plugs: %+v %+v", account, docker)
	}
	if m.Plugs[0] != account || m.Plugs[1] != docker {
		t.Error("plugs are not in the order of declaration")
	}
	for path, at := range map[string]string{
		"": "a.yaml:13:5", "zone": "a.yaml:15:13", "ports": "a.yaml:16:14", "ports.1": "a.yaml:16:19",
		"missing.deeper": "a.yaml:13:5", "ports.7": "a.yaml:16:7",
	} {
		var keys []string
		if path != "" {
			keys = strings.Split(path, ".")
		}
		if got := vm.At(keys...).String(); got != at {
			t.Errorf("At(%s) is %s, want %s", path, got, at)
		}
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
	if got := names(m); got != "d c e b a" {
		t.Errorf("order: %s", got)
	}
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
		if got := m.Plug("p").Path; got != want {
			t.Errorf("%s is %s, want %s", written, got, want)
		}
	}
}

func TestPlugsAllow(t *testing.T) {
	tests := []struct {
		plug        string
		name, typ   string
		allow       bool
		description string
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
		if got := m.Plug("p").Allows(test.name, test.typ); got != test.allow {
			t.Errorf("%s: {%s} allows %s %s: %t", test.description, test.plug, test.name, test.typ, got)
		}
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
	if got := m.Resource("same").Config; !reflect.DeepEqual(got, m.Resource("base").Config) || m.Resource("same").Type != "acme/x" {
		t.Errorf("alias: %v", got)
	}
	more := m.Resource("more")
	want := map[string]any{"size": int64(2), "tags": []any{"a", "b"}, "deep": map[string]any{"y": int64(2)}}
	if more.Type != "acme/x" || !reflect.DeepEqual(more.Config, want) {
		t.Errorf("merge: %v", more.Config)
	}
	if at := more.At("tags", "1").String(); at != "a.yaml:5:41" {
		t.Errorf("position of what was merged in: %s", at)
	}
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
	if err != nil || names(s) != "a b" || s.Resource("c") != nil || s.Resource("a") == nil {
		t.Errorf("selected %v, %v", s, err)
	}
	if _, err := m.Select([]string{"zz"}); err == nil || err.Error() != `there is no resource "zz"; there are a, b, c, d` {
		t.Errorf("unknown: %v", err)
	}
	m = mustLoad(t, nil, "resources: {frontend: {type: x}}")
	if _, err := m.Select([]string{"fronted"}); err == nil || err.Error() != `there is no resource "fronted", did you mean "frontend"?` {
		t.Errorf("suggestion: %v", err)
	}
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
		if got, err := m.Dependents(strings.Fields(tc.targets)); err != nil || strings.Join(got, " ") != tc.want {
			t.Errorf("what depends on %s: got %v, %v, want %s", tc.targets, got, err, tc.want)
		}
	}
	if _, err := m.Dependents([]string{"zz"}); err == nil || err.Error() != `there is no resource "zz"; there are a, b, c, d` {
		t.Errorf("unknown: %v", err)
	}
}

func TestLifecycleOfAResource(t *testing.T) {
	m := mustLoad(t, nil, "resources:\n  a: {type: x, ignore_changes: [content, 'ports[0].host'], prevent_destroy: true}\n  b: {type: x, prevent_destroy: }\n")
	a, b := m.Resource("a"), m.Resource("b")
	if got := a.IgnoreChanges; !slices.Equal(got, []string{"content", "ports[0].host"}) || !a.PreventDestroy || a.PreventedAt().String() != "a.yaml:2:60" {
		t.Errorf("%q, %v at %s", got, a.PreventDestroy, a.PreventedAt())
	}
	if b.PreventDestroy || b.IgnoreChanges != nil {
		t.Error("b has what is not written")
	}
	if got, want := manifest.PathSteps("a.b[0][12].c-d"), []any{"a", "b", 0, 12, "c-d"}; !slices.Equal(got, want) {
		t.Errorf("steps %v, want %v", got, want)
	}
}

func TestIgnoreDrift(t *testing.T) {
	m := mustLoad(t, nil, "resources:\n  a: {type: x, ignore_drift: [content, 'ports[0].host', labels.build/id]}\n  b: {type: x, ignore_drift: }\n")
	if got := m.Resource("a").IgnoreDrift; !slices.Equal(got, []string{"content", "ports[0].host", "labels.build/id"}) {
		t.Errorf("got %q", got)
	}
	if got := m.Resource("b").IgnoreDrift; len(got) != 0 {
		t.Errorf("got %q of nothing", got)
	}
}

func TestNothingIsNotReadOnly(t *testing.T) {
	m := mustLoad(t, nil, "plugs: {p: {path: /x, read_only: }}\nresources: {r: {type: x, readonly: }}")
	if m.Resources[0].ReadOnly {
		t.Error("the resource is read-only")
	}
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
		if got := mustLoad(t, nil, texts...).Hash(); got != one {
			t.Errorf("%s changes the hash", what)
		}
	}
	for what, text := range map[string]string{
		"config":  "plugs: {p: {path: ~/x}}\nresources:\n  a: {type: x, config: {k: 2, l: [2]}}\n  b: {type: y}\n",
		"kind":    "plugs: {p: {path: ~/x}}\nresources:\n  a: {type: x, config: {k: '1', l: [2]}}\n  b: {type: y}\n",
		"plug":    "plugs: {p: {path: ~/y}}\nresources:\n  a: {type: x, config: {k: 1, l: [2]}}\n  b: {type: y}\n",
		"timeout": "plugs: {p: {path: ~/x}}\nresources:\n  a: {type: x, config: {k: 1, l: [2]}, timeout: 1s}\n  b: {type: y}\n",
	} {
		if got := mustLoad(t, nil, text).Hash(); got == one {
			t.Errorf("another %s does not change the hash", what)
		}
	}
	if len(one) != 64 {
		t.Errorf("%q is not a SHA-256 in hexadecimal", one)
	}
}

func TestCheckPlugs(t *testing.T) {
	dir := t.TempDir()
	m := mustLoad(t, nil, fmt.Sprintf("plugs:\n  there: {path: %s}\n  gone: {path: %s/gone}\nresources: {}\n", dir, dir))
	err := m.CheckPlugs()
	want := fmt.Sprintf("a.yaml:3:3: plugs.gone.path: %s/gone: there is no such file or directory", dir)
	var invalid *manifest.Error
	if !errors.As(err, &invalid) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := mustLoad(t, nil, "plugs: {p: {path: "+dir+"}}\nresources: {}").CheckPlugs(); err != nil {
		t.Error(err)
	}
}

func TestReadFiles(t *testing.T) {
	dir := t.TempDir()
	good, large := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(good, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 1<<40); err != nil { // sparse: reading it would never end
		t.Fatal(err)
	}
	sources, err := manifest.ReadFiles([]string{good})
	if err != nil || len(sources) != 1 || string(sources[0].Data) != "x" || sources[0].Name != good {
		t.Fatalf("%v %v", sources, err)
	}
	_, err = manifest.ReadFiles([]string{good, dir, filepath.Join(dir, "none"), large, "/dev/zero", good})
	want := strings.NewReplacer("DIR", dir).Replace(`DIR: is a directory; give the files in it
DIR/none: there is no such file
DIR/large.yaml: has 1099511627776 bytes or more; at most 8388608 (8 MiB) are possible
/dev/zero: is a device, not a file: write what it is to say into a file, or give that as /dev/stdin or <(COMMAND)
DIR/good.yaml: is given twice`)
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	latin := filepath.Join(dir, "caf\xe9.yaml")
	if err := os.WriteFile(latin, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := manifest.ReadFiles([]string{latin}); err == nil || !strings.HasSuffix(err.Error(), ": the name of the file is not valid UTF-8; rename it") {
		t.Errorf("got %v", err)
	}
}
