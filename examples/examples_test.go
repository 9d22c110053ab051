// Package examples holds manifests and resource types to learn from, and the
// test that all of them work: each is applied to the real engine in a copy of
// its directory, and applied again, which must change nothing.
package examples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/engine/enginetest/dockerdtest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// example is one or more manifests that are applied together.
type example struct {
	dir       string
	manifests []string
	resources int
	elsewhere string                         // what else applies it in "make test"; here only "make test-all" does, on every engine
	verifying int                            // how many of them may be as configured from the beginning
	check     func(t *testing.T, dir string) // looks at what the manifests brought about
	prepare   func(t *testing.T, w *world)   // builds images
	flags     func(t *testing.T, w *world) []string
	kept      []string // arguments of "type test" for a type that keeps to the protocol
}

var all = []example{
	{
		dir: "quickstart", manifests: []string{"quickstart.yaml"}, resources: 3,
		check: func(t *testing.T, dir string) {
			contains(t, filepath.Join(dir, "site/public/index.html"), "<h1>Hello, world!</h1>")
			contains(t, filepath.Join(dir, "site/public/SHA256SUMS"), "  index.html\n")
		},
	},
	{
		dir: "web", manifests: []string{"web.yaml"}, resources: 5, verifying: 1, elsewhere: "TestTheWebStackServesAndHeals",
		prepare: func(t *testing.T, w *world) { w.command(t, "web/build", w.name()) },
		flags: func(t *testing.T, w *world) []string {
			return []string{"--var", "stack=" + w.name(), "--var", "image=" + w.name(), "--var", fmt.Sprintf("port=%d", w.freePort(t))}
		},
	},
	{dir: "type-python", manifests: []string{"setting.yaml"}, resources: 2,
		prepare: func(t *testing.T, w *world) { w.buildType(t, "type-python", "deployster-example-setting", w.python) },
		check:   holds("settings/app.json", `"title": "Settings (dark)"`),
		kept:    []string{"deployster-example-setting", "--config", "test.json", "--plug", "settings=settings"}},
	{dir: "type-shell", manifests: []string{"line.yaml"}, resources: 2,
		prepare: func(t *testing.T, w *world) { w.buildType(t, "type-shell", "deployster-example-line", w.busybox) },
		check:   holds("etc/hosts", "10.0.0.1 gateway\n10.0.0.2 printer\n"),
		kept:    []string{"deployster-example-line", "--config", "test.json", "--plug", "files=etc"}},
	{dir: "lifecycle", manifests: []string{"cloud.yaml", "sorted.yaml"}, resources: 2,
		prepare: buildLifecycle, check: virtualMachine},
	{
		dir: "lifecycle", manifests: []string{"cloud.yaml", "expression.yaml"}, resources: 2, elsewhere: "the same resources are in sorted.yaml",
		prepare: buildLifecycle, check: virtualMachine,
	},
	{dir: "gateway", manifests: []string{"replicate.yaml"}, resources: 2, elsewhere: "docs/pipelines.md", flags: step,
		check: holds("hosts/antworker001/artifacts/42", "gateway-42.tar")},
	{dir: "log-daemon", manifests: []string{"log-daemon.yaml"}, resources: 1, elsewhere: "docs/environments.md", flags: daemon,
		check: holds("hosts/logger001/log-daemon", "log-daemon:1 of revision 1")},
	{dir: "gateway", manifests: []string{"deploy.yaml"}, resources: 1, elsewhere: "docs/pipelines.md", flags: step,
		check: holds("hosts/antworker001/current", "gateway 42 at beta")},
	{
		dir: "distribution", manifests: []string{"install.yaml"}, resources: 1, elsewhere: "TestADistributionConvergesWhateverTheOrderOfItsPackages",
		flags: func(*testing.T, *world) []string {
			return []string{"--var", "revision=7", "--var", "artifacts={curl: sha256-of-curl}"}
		},
		check: holds("installed", "7: curl sha256-of-curl\n"),
	},
	{dir: "approval", manifests: []string{"announce.yaml"}, resources: 1, elsewhere: "docs/approvals.md",
		flags: func(*testing.T, *world) []string { return []string{"--var", "revision=42"} },
		check: holds("site/index.html", "revision 42")},
	{dir: "promotion", manifests: []string{"task.yaml"}, resources: 1, elsewhere: "docs/promotion.md",
		flags: func(*testing.T, *world) []string { return []string{"--var", "host=dev001", "--var", "version=2"} },
		check: holds("hosts/dev001/shop", "shop 2\n")},
	{dir: "shop", manifests: []string{"deploy.yaml"}, resources: 1, elsewhere: "docs/pipelines.md", flags: taking,
		check: holds("hosts/shop001/current", "shop 7\nconfig 1 from config-1.tar\nsearch 20 from search-20\n")},
}

// taking are the variables that a pipeline with inputs gives to the manifests of its steps.
func taking(*testing.T, *world) []string {
	return []string{
		"--var", "pipeline=shop", "--var", "revision=7", "--var", "host=shop001",
		"--var", "inputs={config: {revision: 1, artifacts: {tar: config-1.tar}}, search: {revision: 20, artifacts: {index: search-20}}}",
	}
}

// daemon are the variables that a task of the environment has.
func daemon(*testing.T, *world) []string {
	return []string{"--var", "host=logger001", "--var", "task=log-daemon", "--var", "revision=1", "--var", "image=log-daemon:1", "--var", "directory=."}
}

// step are the variables that a pipeline gives to the manifests of its steps.
func step(*testing.T, *world) []string {
	return []string{
		"--var", "pipeline=gateway", "--var", "stage=beta", "--var", "revision=42", "--var", "host=antworker001", "--var", "artifacts={x86: gateway-42.tar}",
	}
}

func buildLifecycle(t *testing.T, w *world) {
	w.command(t, "lifecycle/build", w.python)
	w.images = append(w.images, "acme/deployster-gcp-disk", "acme/deployster-gcp-vm")
}

func virtualMachine(t *testing.T, dir string) {
	contains(t, filepath.Join(dir, "cloud/vm-www_vm.json"), `"zone": "europe-west1-b"`)
	contains(t, filepath.Join(dir, "cloud/disk-www_data_disk.json"), `"size": "200gb"`)
}

func TestExamplesApplyAndThenChangeNothing(t *testing.T) {
	for _, e := range all {
		engines := []string{"docker"}
		switch {
		case !ringtest.All() && e.elsewhere != "":
			continue
		case ringtest.All() && e.prepare == nil: // Docker has the images that are built
			engines = append(engines, "oci")
		}
		for _, engine := range engines {
			t.Run(e.dir+"/"+strings.Join(e.manifests, "+")+" on "+engine, func(t *testing.T) { e.applyTwice(t, shared, engine) })
		}
	}
}

func (e example) applyTwice(t *testing.T, w *world, engine string) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(e.dir)))
	if e.prepare != nil {
		e.prepare(t, w)
	}
	args := append(slices.Clone(e.manifests), "--engine", engine)
	if e.flags != nil {
		args = append(args, e.flags(t, w)...)
	}

	first := w.apply(t, dir, args)
	if n := first.Counts; n.Changed < e.resources-e.verifying || n.Changed+n.Unchanged != e.resources {
		t.Errorf("the first apply: %+v, want %d changed", n, e.resources)
	}
	assert.NotEmpty(t, first.actions, "the first apply ran no action")
	if e.check != nil {
		e.check(t, dir)
	}

	second := w.apply(t, dir, args)
	assert.Zero(t, second.Counts.Changed, "of the second apply")
	assert.Equal(t, e.resources, second.Counts.Unchanged, "of the second apply")
	assert.Empty(t, second.actions, "of the second apply")
	logged := w.deployster(t, dir, "log", "list", "--output", "json", "--event", "action-started", "--deployment", second.run)
	assert.Empty(t, logged, "actions of the second apply in the log")

	w.deployster(t, dir, append([]string{"plan", "--detailed-exitcode"}, args...)...)
	w.nothingLeft(t, dir)

	// In "make test" one type is enough: the templates of types keep to the protocol in internal/authoring.
	if e.kept != nil && (ringtest.All() || e.dir == "type-shell") {
		fresh := t.TempDir()
		require.NoError(t, os.CopyFS(fresh, os.DirFS(e.dir)))
		w.deployster(t, fresh, append([]string{"type", "test"}, e.kept...)...)
	}
}

// README.md stops the front, which is started again.
func TestTheWebStackServesAndHeals(t *testing.T) {
	w := shared
	w.command(t, "web/build", w.name())
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("web")))
	// What an apply made belongs to its workspace: this one needs a name of its own.
	stack := w.name() + "-heal"
	port := w.freePort(t)
	args := []string{"web.yaml", "--var", "stack=" + stack, "--var", "image=" + w.name(), "--var", fmt.Sprintf("port=%d", port)}
	w.apply(t, dir, args)
	before := visitor(t, port)

	again := w.apply(t, dir, args)
	assert.Empty(t, again.actions, "of the second apply")

	w.docker(t, "rm", "--force", stack+"-store")
	healed := w.apply(t, dir, args)
	assert.Contains(t, healed.actions, "store/create-container", "after the store was removed")
	assert.Greater(t, visitor(t, port), before, "the count of visits, which is on the volume")
	w.nothingLeft(t, dir)
}

func visitor(t *testing.T, port int) int {
	t.Helper()
	response := must.Get(http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port)))(t)
	defer response.Body.Close()
	body := must.Get(io.ReadAll(response.Body))(t)
	var n int
	if _, err := fmt.Sscanf(string(body), "Visitor number %d", &n); err != nil {
		t.Fatalf("the front answered %s: %q", response.Status, body)
	}
	return n
}

func TestEveryManifestHasATest(t *testing.T) {
	tested := map[string]bool{}
	for _, e := range all {
		for _, m := range e.manifests {
			tested[filepath.Join(e.dir, m)] = true
		}
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var sections map[string]any
		if err := yaml.Unmarshal(text, &sections); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		_, resources := sections["resources"]
		_, plugs := sections["plugs"]
		assert.False(t, (resources || plugs) && !tested[path], "%s is a manifest, and no test applies it", path)
		delete(tested, path)
		return nil
	})
	require.NoError(t, err)
	for path := range tested {
		t.Errorf("%s is tested, but not there", path)
	}
}

// world is the program and an engine with which a test works, and what the test
// has to remove when it ends.
type world struct {
	binary          string
	env             []string
	python, busybox string   // base images
	images          []string // made by the test
	shipped         string   // id of the image of one of the types that ship
}

// shared is the world of all tests: made before the first, removed after the
// last.
var shared *world

func TestMain(m *testing.M) {
	code := 1
	dir, err := os.MkdirTemp("", "deployster-examples-")
	if err == nil {
		shared = &world{
			binary: filepath.Join(dir, "deployster"),
			python: "deployster-example-python", busybox: "deployster-example-busybox",
			env: append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "TERM=dumb"),
		}
		if err = shared.make(); err == nil {
			code = m.Run()
		}
		err = errors.Join(err, shared.clean(), os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func (w *world) make() error {
	// A build that nobody else has: the images of its types are this test's.
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -buildid="+w.name(), "-o", w.binary, "../cmd/deployster")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building deployster: %w\n%s", err, out)
	}
	for _, base := range []string{w.python, w.busybox} {
		if exec.Command("docker", "image", "inspect", base).Run() != nil {
			w.images = append(w.images, base)
		}
	}
	if out, err := exec.Command("../scripts/base-image").CombinedOutput(); err != nil {
		return fmt.Errorf("making the base images: %w\n%s", err, out)
	}
	return nil
}

// name is of this process alone.
func (w *world) name() string { return fmt.Sprintf("deployster-examples-%d", os.Getpid()) }

func (w *world) clean() error {
	n := w.name()
	w.images = append(w.images, n)
	for _, stack := range []string{n, n + "-heal"} {
		// What was not made is not there to be removed.
		_ = exec.Command("docker", "rm", "--force", "--volumes", stack+"-front", stack+"-store").Run()
		_ = exec.Command("docker", "network", "rm", stack+"-net").Run()
		_ = exec.Command("docker", "volume", "rm", stack+"-data").Run()
	}
	w.images = append(w.images, w.siblings()...)
	slices.Reverse(w.images) // what is built on a base goes before it
	for _, image := range w.images {
		_ = exec.Command("docker", "image", "rm", "--force", image).Run()
	}
	var left []string
	for _, kind := range []string{"container", "network", "volume", "image"} {
		filter := "name=" + n
		if kind == "image" {
			filter = "label=deployster-examples=" + n
		}
		if out, err := exec.Command("docker", kind, "ls", "--quiet", "--filter", filter).Output(); err != nil || len(out) > 0 {
			left = append(left, fmt.Sprintf("left behind, of kind %s: %s %v", kind, out, err))
		}
	}
	if len(left) > 0 {
		return errors.New(strings.Join(left, "\n"))
	}
	return nil
}

// siblings are the images of the types that ship which came along with those
// that were used: they share the layer that holds this test's program.
func (w *world) siblings() []string {
	layer := func(image string) string {
		out, _ := exec.Command("docker", "image", "inspect", "--format", "{{.RootFS.Layers}}", image).Output()
		return string(out)
	}
	out, _ := exec.Command("docker", "image", "ls", "--quiet", "--filter", "label=deployster.type").Output()
	var found []string
	for _, image := range strings.Fields(string(out)) {
		if w.shipped != "" && layer(image) == layer(w.shipped) {
			found = append(found, image)
		}
	}
	return found
}

func (w *world) freePort(t *testing.T) int {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (w *world) command(t *testing.T, name string, args ...string) {
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
}

func (w *world) docker(t *testing.T, args ...string) { w.command(t, "docker", args...) }

func (w *world) buildType(t *testing.T, dir, image, base string) {
	w.docker(t, "build", "--quiet", "--build-arg", "BASE="+base, "--label", "deployster-examples="+w.name(), "--tag", image, dir)
	w.images = append(w.images, image)
}

// deployster runs the program in dir and returns its output; it must end with 0.
func (w *world) deployster(t *testing.T, dir string, args ...string) string {
	var stdout, stderr bytes.Buffer
	c := exec.Command(w.binary, args...)
	c.Dir, c.Env, c.Stdout, c.Stderr = dir, w.env, &stdout, &stderr
	err := c.Run()
	require.NoError(t, err, "deployster %s: %v\n%s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	return stdout.String()
}

// run is what an apply said of itself.
type run struct {
	run     string
	actions []string // resource/action, as they were started
	Counts  struct{ Changed, Unchanged, Failed, Skipped int }
}

func (w *world) apply(t *testing.T, dir string, args []string) run {
	out := w.deployster(t, dir, append([]string{"apply", "--confirm", "NO", "--output", "json"}, args...)...)
	var r run
	for decoder := json.NewDecoder(strings.NewReader(out)); ; {
		var event struct {
			Type, Resource, Action string
			ImageID                string `json:"image_id"`
			Image                  string
			Data                   map[string]string
			Counts                 json.RawMessage
		}
		err := decoder.Decode(&event)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "reading the events of an apply: %v\n%s", err, out)
		switch event.Type {
		case "run-started":
			r.run = event.Data["run"]
		case "resource-initialized":
			if strings.HasPrefix(event.Image, "deployster/") {
				w.shipped = event.ImageID
			}
		case "action-started":
			r.actions = append(r.actions, event.Resource+"/"+event.Action)
		case "run-finished-successfully":
			require.NoError(t, json.Unmarshal(event.Counts, &r.Counts))
		}
	}
	require.True(t, r.run != "" && r.Counts.Changed+r.Counts.Unchanged != 0, "the apply did not tell of its beginning and end:\n%s", out)
	return r
}

// nothingLeft looks for containers of resource types that a run left behind.
func (w *world) nothingLeft(t *testing.T, dir string) {
	t.Helper()
	var log struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(w.deployster(t, dir, "log", "verify", "--output", "json")), &log))
	dockerdtest.NothingLeft(t, "deployster.log="+log.ID)
}

// holds checks that a file below a directory holds a text.
func holds(path, text string) func(*testing.T, string) {
	return func(t *testing.T, dir string) { contains(t, filepath.Join(dir, path), text) }
}

func contains(t *testing.T, path, want string) {
	text := must.Get(os.ReadFile(path))(t)
	assert.Contains(t, string(text), want, "%s holds\n%s\nwhich does not contain %q", path, text, want)
}

// Actions of several resources run at once. The example types of which several
// resources share a file lose nothing of what the others do.
func TestActionsOfOneTypeMayRunAtOnce(t *testing.T) {
	const many = 6
	for _, example := range []struct {
		source, plug, action string
		interpreter          string
		config               func(i int) map[string]any
		holds                func(text string, i int) bool
	}{
		{"type-shell/line.sh", "/plug/files", "add", "sh",
			func(i int) map[string]any { return map[string]any{"file": "shared", "line": fmt.Sprint("line ", i)} },
			func(text string, i int) bool { return strings.Contains("\n"+text, fmt.Sprintf("\nline %d\n", i)) }},
		{
			"type-python/setting.py", "/plug/settings", "set", "python3",
			func(i int) map[string]any {
				return map[string]any{"file": "shared", "key": fmt.Sprint("key", i), "value": i}
			},
			func(text string, i int) bool {
				var settings map[string]any
				return json.Unmarshal([]byte(text), &settings) == nil && settings[fmt.Sprint("key", i)] == float64(i)
			},
		},
	} {
		t.Run(example.source, func(t *testing.T) {
			plug := t.TempDir()
			text := must.Get(os.ReadFile(example.source))(t)
			program := filepath.Join(t.TempDir(), "type")
			require.NoError(t, os.WriteFile(program, []byte(strings.ReplaceAll(string(text), example.plug, plug)), 0o600))
			ended := make(chan error)
			for i := range many {
				go func() {
					request, err := json.Marshal(map[string]any{"name": "r", "config": example.config(i), "staleState": map[string]any{}})
					if err == nil {
						cmd := exec.CommandContext(t.Context(), example.interpreter, program, example.action)
						cmd.Stdin = strings.NewReader(string(request))
						var out []byte
						if out, err = cmd.CombinedOutput(); err != nil {
							err = fmt.Errorf("%w: %s", err, out)
						}
					}
					ended <- err
				}()
			}
			for range many {
				assert.NoError(t, <-ended)
			}
			shared := must.Get(os.ReadFile(filepath.Join(plug, "shared")))(t)
			for i := range many {
				assert.True(t, example.holds(string(shared), i), "what action %d did is lost:\n%s", i, shared)
			}
		})
	}
}

// The compiler, the make and the C library of the distribution build each other, and which
// of them comes first follows from their order in the file. What they come to does not.
func TestADistributionConvergesWhateverTheOrderOfItsPackages(t *testing.T) {
	w := shared
	dir := filepath.Join(t.TempDir(), "distribution")
	require.NoError(t, os.CopyFS(dir, os.DirFS("distribution")))
	file := filepath.Join(dir, "packages.yaml")
	text := must.Get(os.ReadFile(file))(t)
	group := "distribution-1"
	built := w.distribution(t, dir, group)
	require.Len(t, built, 12)
	if ringtest.All() { // in "make test" the properties of package build plan in any order
		require.NoError(t, os.WriteFile(file, reversed(t, text), 0o600))
		group = "distribution-2"
		assert.Equal(t, built, w.distribution(t, dir, group), "in the reverse order")
	}
	out := t.TempDir()
	w.deployster(t, dir, "build", "logs", group, "curl")
	require.NoError(t, exec.Command("tar", "-xf", layerOf(t, dir, built["curl"]), "-C", out).Run(), "unpacking the artifact of curl")
	contains(t, filepath.Join(out, "bin/curl"), "# compiled by cc 9.1, linked with libc 2.29\n")
	contains(t, filepath.Join(out, "made"), "made by make 4.3\n")

	// A stage of a pipeline takes what is built already, and later ones get it.
	for _, args := range []string{"apply -f pipeline.yaml", "release world 1", "run --until-idle", "release world 2", "run --until-idle"} {
		w.deployster(t, dir, append([]string{"pipeline"}, strings.Fields(args)...)...)
	}
	contains(t, filepath.Join(dir, "installed"), "2: curl "+built["curl"]+"\n")
	last := map[string]string{"distribution-1": "distribution-3", "distribution-2": "distribution-4"}[group]
	jobs := w.deployster(t, dir, "build", "jobs", last)
	assert.Equal(t, 15, strings.Count(jobs, "reused"), "jobs of the second revision are to be reused:\n%s", jobs)
}

// distribution builds all packages anew, and returns the artifacts of what was built last.
func (w *world) distribution(t *testing.T, dir, group string) map[string]string {
	w.deployster(t, dir, "build", "submit", "-f", "packages.yaml", "--no-reuse")
	w.deployster(t, dir, "build", "run", "--until-idle")
	var answer struct {
		Jobs []struct {
			Package  string
			State    string
			Finished struct{ Artifact, Reused string }
		}
	}
	text := w.deployster(t, dir, "build", "jobs", group, "--all", "--output", "json")
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	built := map[string]string{}
	for _, j := range answer.Jobs {
		assert.True(t, j.State == "Built" && j.Finished.Reused == "", "%s is %s, and of job %q", j.Package, j.State, j.Finished.Reused)
		built[j.Package] = j.Finished.Artifact
	}
	return built
}

// entry matches a package as the file has it: its line, and those that are within it.
var entry = regexp.MustCompile(`(?m)^  [a-z]+:.*\n(?:    .*\n)*`)

// reversed is a file with its packages in the reverse order.
func reversed(t *testing.T, text []byte) []byte {
	before, after, found := bytes.Cut(text, []byte("\npackages:\n"))
	all := entry.FindAll(after, -1)
	require.True(t, found && bytes.Equal(bytes.Join(all, nil), after), "the packages are not where they are looked for:\n%s", after)
	slices.Reverse(all)
	return slices.Concat(before, []byte("\npackages:\n"), bytes.Join(all, nil))
}

// layerOf is the file with the contents of an artifact.
func layerOf(t *testing.T, dir, digest string) string {
	blob := func(digest string) string {
		return filepath.Join(dir, ".deployster/artifacts/blobs/sha256", strings.TrimPrefix(digest, "sha256:"))
	}
	text, err := os.ReadFile(blob(digest))
	var manifest struct{ Layers []struct{ Digest string } }
	if err == nil {
		err = json.Unmarshal(text, &manifest)
	}
	if err == nil && len(manifest.Layers) != 1 {
		err = fmt.Errorf("it has %d layers", len(manifest.Layers))
	}
	require.NoError(t, err, "reading artifact %s", digest)
	return blob(manifest.Layers[0].Digest)
}
