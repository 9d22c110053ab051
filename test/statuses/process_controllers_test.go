//go:build controllers

package statuses

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
)

// programs is the directory with the controllers, as scripts/controllers built them: a program
// NAME, its version in NAME.version, and the kinds that it needs in NAME.crds.
func programs(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("DEPLOYSTER_CONTROLLERS")
	require.NotEmpty(t, dir, "this test needs controllers: run it with scripts/controllers")
	return dir
}

// version is the name of a controller with its version.
func version(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(programs(t), name+".version"))
	require.NoError(t, err)
	return name + " " + strings.TrimPrefix(strings.TrimSpace(string(text)), "v")
}

// controller is a controller that runs.
type controller struct {
	testing.TB
	command []string
	env     []string
	process *exec.Cmd
	log     *os.File
}

// start starts a controller, which ends with the test.
func start(t testing.TB, c *client, name string, args ...string) *controller {
	t.Helper()
	return startProgram(t, c, name, append([]string{filepath.Join(programs(t), name)}, args...)...)
}

// startProgram starts a command that is a part of one.
func startProgram(t testing.TB, c *client, name string, command ...string) *controller {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), name+".log"))
	require.NoError(t, err)
	r := &controller{TB: t, command: command, log: log, env: append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "RUNTIME_NAMESPACE=default", "HOME="+t.TempDir())}
	r.run()
	t.Cleanup(func() {
		r.kill()
		if said, _ := os.ReadFile(log.Name()); t.Failed() {
			lines := strings.Split(strings.TrimSpace(string(said)), "\n")
			t.Logf("%s wrote last:\n%s", name, strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
		_ = log.Close()
	})
	return r
}

func (c *controller) run() {
	c.Helper()
	c.process = exec.Command(c.command[0], c.command[1:]...)
	c.process.Env, c.process.Stdout, c.process.Stderr = c.env, c.log, c.log
	c.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(c, c.process.Start())
}

func (c *controller) kill() {
	_ = syscall.Kill(-c.process.Process.Pid, syscall.SIGKILL)
	_ = c.process.Wait()
}

// restart kills the controller, and starts it again.
func (c *controller) restart() {
	c.Helper()
	c.kill()
	c.run()
}

// install makes the kinds of a controller known to the cluster, which ends with the tests.
func install(t testing.TB, c *client, name string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(programs(t), name+".crds", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for _, file := range files {
		written, err := os.ReadFile(file)
		require.NoError(t, err)
		var object fields
		require.NoError(t, yaml.Unmarshal(written, &object))
		path := definitions + "/" + object["metadata"].(fields)["name"].(string)
		c.apply(t, path, object)
		live := kubetest.Await(t, c.Cluster, path, "it is served", func(live fields) bool { return text(condition(live, "Established"), "status") == "True" })
		kubetest.Until(t, path+" can be listed", func() (string, bool) { // its storage takes a moment more
			for _, version := range live["spec"].(fields)["versions"].([]any) {
				if version := version.(fields); version["storage"] == true {
					response, err := c.ask(t.Context(), http.MethodGet, "/apis/"+text(live, "spec", "group")+"/"+text(version, "name")+"/"+text(live, "spec", "names", "plural"), "", nil)
					if err != nil {
						return err.Error(), false
					}
					_ = response.Body.Close()
				}
			}
			return "", true
		})
	}
}

// port is one of this machine that nobody uses.
func port(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// repository is a git repository, and what a source-controller of Flux makes of it: the test is that
// controller, which serves artifacts and says so in the status of a source.
type repository struct {
	testing.TB
	dir    string
	served *httptest.Server

	mu        sync.Mutex
	artifacts map[string][]byte // by their paths
}

func newRepository(t testing.TB) *repository {
	t.Helper()
	r := &repository{TB: t, dir: t.TempDir(), artifacts: map[string][]byte{}}
	r.served = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		content, has := r.artifacts[request.URL.Path]
		r.mu.Unlock()
		if !has {
			http.NotFound(w, request)
			return
		}
		_, _ = w.Write(content)
	}))
	t.Cleanup(r.served.Close)
	r.git("init", "--quiet", "--initial-branch", "main")
	return r
}

// artifact serves a tree of a commit, with a prefix of its names, and is what a source says of that.
func (r *repository) artifact(tree, prefix, revision string) fields {
	r.Helper()
	file := filepath.Join(r.TempDir(), "artifact.tar.gz")
	r.git("archive", "--format", "tar.gz", "--prefix", prefix, "--output", file, tree)
	content, err := os.ReadFile(file)
	require.NoError(r, err)
	path := fmt.Sprintf("/%x.tar.gz", sha256.Sum256(content))
	r.mu.Lock()
	r.artifacts[path] = content
	r.mu.Unlock()
	return fields{
		"url": r.served.URL + path, "path": path, "digest": fmt.Sprintf("sha256:%x", sha256.Sum256(content)), "revision": revision, "size": len(content),
		"lastUpdateTime": time.Now().UTC().Format(time.RFC3339),
	}
}

// publish makes a source as its controller has it once it has fetched an artifact.
func (c *client) publish(t testing.TB, path, kind string, spec, artifact fields) {
	t.Helper()
	c.apply(t, path, fields{"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": kind, "metadata": fields{"name": "shop"}, "spec": spec})
	c.patch(t, path+"/status", fields{"status": fields{
		"observedGeneration": 1, "artifact": artifact,
		"conditions": []any{fields{"type": "Ready", "status": "True", "observedGeneration": 1, "reason": "Succeeded", "message": "stored artifact", "lastTransitionTime": "2026-01-02T03:04:05Z"}},
	}})
}

func (r *repository) git(args ...string) string {
	r.Helper()
	command := exec.Command("git", args...)
	command.Dir = r.dir
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
		"GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
	said, err := command.CombinedOutput()
	require.NoError(r, err, "git %s: %s", args, said)
	return strings.TrimSpace(string(said))
}

// commit commits files to main, and returns the commit.
func (r *repository) commit(files map[string]string) string {
	r.Helper()
	for name, content := range files {
		file := filepath.Join(r.dir, name)
		require.NoError(r, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(r, os.WriteFile(file, []byte(content), 0o644))
	}
	r.git("add", "--all")
	r.git("commit", "--quiet", "--allow-empty", "--message", "change")
	return r.git("rev-parse", "HEAD")
}

// reset has main be an older commit.
func (r *repository) reset(commit string) { r.git("reset", "--quiet", "--hard", commit) }

// manifest is an object as a file has it.
func manifest(object fields) string {
	encoded, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

// pause is the image that nodes have. Its Pods only wait.
const pause, missing = "kubetest.local/pause:1", "kubetest.local/missing:1"

// shop is a Deployment of a version of the shop.
func shop(version, image string, change ...func(spec fields)) fields {
	labels := fields{"app": "shop"}
	spec := fields{
		"replicas": 1, "selector": fields{"matchLabels": labels}, "progressDeadlineSeconds": 60,
		"template": fields{
			"metadata": fields{"labels": labels, "annotations": fields{"version": version}},
			"spec":     fields{"terminationGracePeriodSeconds": 0, "containers": []any{fields{"name": "shop", "image": image, "imagePullPolicy": "Never"}}},
		},
	}
	for _, c := range change {
		c(spec)
	}
	return fields{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": fields{"name": "shop"}, "spec": spec}
}

// slowly has a Pod count as available only after some time.
func slowly(spec fields) { spec["minReadySeconds"] = 5 }

// rolledOut is the version of the shop that its Deployment runs wholly and well, or "".
func rolledOut(live fields) string {
	number := func(keys ...string) string { return text(live, keys...) }
	wanted := number("spec", "replicas")
	if number("status", "observedGeneration") != number("metadata", "generation") || wanted == "0" {
		return ""
	}
	for _, name := range []string{"replicas", "updatedReplicas", "availableReplicas"} {
		if number("status", name) != wanted {
			return ""
		}
	}
	return text(live, "spec", "template", "metadata", "annotations", "version")
}
