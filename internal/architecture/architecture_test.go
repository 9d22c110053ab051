// Package architecture holds the test that keeps every package on its floor.
package architecture

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/deployster-go/deployster/"

// floors says, for every package, which of ours it may import. A pattern
// ending in /* covers everything below; "*" allows all.
var floors = []struct {
	pkg string
	may []string
}{
	{"protocol", nil}, // types are built with it alone
	{"schema", []string{"internal/suggest", "internal/phrase"}},
	{"engine", []string{"internal/unwatched"}},
	{"deploylog", nil},
	{"graph", []string{"internal/heap"}},
	{"expression/python", []string{"internal/phrase"}},
	{"expression/builtin", []string{"expression/python"}},
	{"expression", []string{"expression/*", "internal/pattern"}},
	{"internal/suggest", []string{"internal/pattern"}},
	{"internal/atomicfile", nil},
	{"internal/filelock", nil},
	{"internal/regularfile", nil},
	{"internal/diskuse", nil},
	{"internal/contents", []string{"internal/regularfile"}},
	{"internal/pattern", nil},
	{"internal/phrase", nil},
	{"internal/terminal", []string{"internal/phrase"}},
	{"internal/terminal/pane", []string{"engine", "internal/crash"}},
	{"internal/heap", nil},
	{"internal/keepalive", nil},
	{"internal/unwatched", nil},
	{"internal/refusal", nil},
	{"internal/budget", nil},
	{"internal/places", nil},
	{"internal/duration", nil},
	{"internal/crash", nil},
	{"internal/waittest", nil},     // of tests
	{"internal/must", nil},         // of tests
	{"internal/formtest", nil},     // of tests
	{"internal/registrytest", nil}, // of tests
	{"internal/gittest", nil},      // of tests
	{"test/ring", nil},             // of tests
	{"test/editor", []string{"internal/pullrequest/value"}},
	{"test/statuses", nil},     // of tests
	{"internal/ringtest", nil}, // of tests
	{"internal/yamlformat", []string{"internal/pattern"}},
	{"internal/usercache", []string{"protocol", "internal/atomicfile"}},
	{"internal/hostkeys", []string{"internal/filelock"}},
	{"internal/sshdtest", nil}, // of tests
	{"internal/objects", []string{"internal/atomicfile"}},
	{"internal/protected", []string{"internal/atomicfile", "internal/regularfile"}},
	{"internal/registryauth", []string{"internal/regularfile", "internal/pattern"}},
	{"internal/lockfile", []string{"internal/atomicfile", "internal/yamlfile", "internal/regularfile", "internal/pattern"}},
	{"internal/artifacts", []string{"internal/atomicfile", "internal/filelock", "internal/registryauth", "internal/crash", "internal/regularfile"}},
	{"internal/modulesource", []string{"internal/artifacts", "internal/atomicfile", "internal/suggest", "internal/pattern"}},
	{"internal/provenance", []string{"internal/regularfile"}},
	{"internal/worktree", []string{"internal/pattern"}},
	{"internal/namedfile", []string{"internal/yamlfile", "internal/regularfile"}},
	{"manifest/declaration", []string{"schema", "expression", "internal/yamlfile", "internal/pattern"}},
	{"manifest/address", []string{"internal/pattern"}},
	{"manifest/usage", []string{"expression", "internal/yamlfile", "internal/suggest"}},
	{"manifest/repeated", []string{"manifest/address", "internal/yamlfile", "internal/phrase"}},
	{"manifest", []string{"manifest/address", "manifest/declaration", "manifest/usage", "schema", "expression", "graph", "internal/namedfile", "internal/yamlfile", "internal/suggest", "internal/phrase", "internal/crash", "internal/pattern"}},
	{"manifest/vars", []string{"manifest", "manifest/declaration", "manifest/usage", "schema", "expression", "internal/namedfile", "internal/yamlfile", "internal/phrase"}},
	{"internal/entrypoint", nil},
	{"engine/docker", []string{"engine", "internal/registryauth", "internal/entrypoint", "internal/crash", "internal/filelock", "internal/pattern", "internal/keepalive", "internal/unwatched"}},
	{"engine/oci", []string{"engine", "engine/oci/*", "internal/entrypoint", "internal/crash", "internal/regularfile"}},
	{"engine/oci/*", []string{"engine", "engine/oci/*", "internal/atomicfile", "internal/registryauth", "internal/entrypoint", "internal/crash"}},
	{"engine/kubernetes", []string{"engine", "internal/registryauth", "internal/entrypoint", "internal/crash", "internal/regularfile", "internal/pattern"}},
	{"engine/kubernetes/kubetest", []string{"internal/waittest"}},
	{"engine/kubernetes/kubetest/run", []string{"engine/kubernetes/kubetest"}},
	{"internal/kubewatch", nil},
	{"internal/kubewatch/apitest", nil},
	{"engine/enginetest", []string{"engine", "engine/enginetest/*", "internal/waittest"}},
	{"engine/enginetest/*", []string{"engine", "engine/enginetest/*", "internal/waittest"}},
	{"deploylog/chain", []string{"deploylog"}},
	{"deploylog/queue", []string{"deploylog", "deploylog/chain"}},
	{"deploylog/snapshotfile", []string{"deploylog", "internal/regularfile"}},
	{"deploylog/turn", []string{"deploylog"}},
	{"deploylog/sqlite/wal", nil},
	{"deploylog/sqlite", []string{"deploylog/queue", "deploylog/chain", "deploylog/turn", "deploylog/sqlite/wal", "deploylog", "deploylog/snapshotfile", "internal/atomicfile", "internal/crash", "internal/regularfile"}},
	{"deploylog/postgres/pgtest", nil},
	{"deploylog/postgres", []string{"deploylog", "deploylog/chain", "deploylog/snapshotfile", "deploylog/queue", "deploylog/turn", "internal/crash", "internal/keepalive", "internal/objects", "internal/protected", "internal/pattern"}},
	{"deploylog/logtest", []string{"deploylog", "internal/ringtest", "internal/waittest"}},
	{"internal/logcopy", []string{"deploylog", "internal/objects", "internal/protected"}},
	{"internal/rollout", nil},
	{"resources/internal/readiness", []string{"internal/rollout", "resources/internal/*"}},
	{"resources/internal/protocoltest", []string{"engine", "internal/authoring"}}, // of tests
	{"resources/internal/*", []string{"protocol", "resources/internal/*", "internal/pattern"}},
	{"resources/*", []string{"protocol", "resources/internal/*", "internal/pattern"}},
	{"internal/yamlfile", []string{"internal/suggest", "internal/duration", "internal/pattern"}},
	{"internal/yamlfile/yamltest", []string{"internal/yamlfile"}},
	{"inventory", []string{"internal/yamlfile", "internal/suggest", "internal/pattern"}},
	{"internal/acceptance", []string{"deploylog", "internal/allow", "internal/phrase", "internal/refusal"}},
	{"internal/allow", []string{"internal/yamlfile", "internal/pattern"}},
	{"build/definition", []string{"expression", "graph", "inventory", "internal/duration", "internal/phrase", "internal/yamlfile", "internal/pattern"}},
	{"build/record", []string{"deploylog"}},
	{"build/recipe", []string{"build/record"}},
	{"build/plan", []string{"build/definition", "graph", "internal/heap", "internal/phrase", "internal/yamlfile"}},
	{"build/transition", []string{"build/record", "deploylog"}},
	{"build/bitset", nil},
	{"build/block", nil},
	{"build/compact", nil},
	{"build/reusable", []string{"build/record"}},
	{"build/reason", []string{"deploylog", "internal/phrase"}},
	{"build", []string{"build/record", "build/bitset", "build/block", "build/reusable", "build/compact", "build/transition", "build/reason", "deploylog", "internal/heap", "internal/phrase", "internal/refusal", "internal/suggest"}},
	{"pipeline/definition", []string{"deploylog", "graph", "internal/allow", "internal/suggest", "internal/yamlfile", "internal/budget", "internal/duration", "internal/phrase", "internal/pattern"}},
	{"pipeline/upstream", []string{"pipeline/definition", "internal/suggest", "internal/refusal"}},
	{"pipeline/record", []string{"pipeline/definition", "pipeline/upstream", "deploylog", "internal/acceptance"}},
	{"pipeline/approval", []string{"pipeline/record", "deploylog", "internal/phrase", "internal/refusal", "internal/pattern"}},
	{"pipeline/reason", []string{"pipeline/approval", "pipeline/record", "deploylog", "internal/phrase"}},
	{"pipeline/effect", []string{"pipeline/record", "pipeline/reason", "deploylog"}},
	{"pipeline/deployment", []string{"internal/allow", "pipeline/approval", "pipeline/record", "pipeline/upstream", "pipeline/definition", "deploylog"}},
	{"pipeline/outcome", []string{"pipeline/deployment", "pipeline/reason", "pipeline/record", "deploylog"}},
	{"pipeline/step", []string{"pipeline/deployment", "pipeline/reason", "pipeline/record", "pipeline/upstream", "pipeline/definition", "deploylog"}},
	{"pipeline/walk", []string{"pipeline/deployment", "pipeline/reason", "pipeline/record", "pipeline/step", "deploylog"}},
	{"pipeline/promotion/window", nil},
	{"pipeline/promotion/object", []string{"internal/phrase", "internal/rollout"}},
	{"pipeline/promotion/object/recording", []string{"pipeline/promotion/object"}}, // of tests
	{"internal/pullrequest/address", nil},
	{"internal/pullrequest/value", []string{"internal/suggest", "internal/pattern"}},
	{"internal/pullrequest/limit", nil},
	{"internal/pullrequest/wording", []string{"expression", "internal/pattern"}},
	{"internal/pullrequest/signing", nil},
	{"internal/pullrequest/lru", nil},
	{"internal/pullrequest/slots", nil},
	{"internal/pullrequest/remote", []string{"internal/pullrequest/limit", "internal/crash", "internal/phrase"}},
	{"internal/pullrequest/provider", []string{"internal/pullrequest/limit", "internal/pullrequest/lru"}},
	{"internal/pullrequest/forgetest", nil},
	{"internal/pullrequest", []string{"internal/pullrequest/*", "internal/phrase", "internal/regularfile"}},
	{"pipeline/promotion/definition", []string{"pipeline/promotion/window", "pipeline/promotion/object", "deploylog", "internal/pullrequest/value", "internal/pullrequest/address", "internal/pullrequest/wording", "internal/yamlfile", "internal/duration", "internal/budget", "internal/phrase", "internal/pattern"}},
	{"pipeline/promotion", []string{"pipeline/promotion/*", "pipeline/approval", "pipeline/record", "deploylog", "internal/phrase", "internal/refusal", "internal/suggest", "internal/unwatched"}},
	{"pipeline", []string{"pipeline/*", "deploylog", "internal/allow", "internal/suggest", "internal/phrase", "internal/budget", "internal/refusal", "internal/acceptance"}},
	{"environment/definition", []string{"deploylog", "internal/allow", "internal/yamlfile", "internal/suggest", "internal/budget", "internal/duration", "internal/pattern"}},
	{"environment/ordered", nil},
	{"environment/record", []string{"environment/definition", "deploylog", "internal/budget", "internal/acceptance"}},
	{"environment/reason", []string{"environment/record", "environment/definition", "deploylog", "internal/phrase", "internal/unwatched"}},
	{"environment/report", []string{"environment/reason", "environment/record", "environment/definition", "deploylog", "internal/acceptance"}},
	{"environment/tasks", []string{"environment/report", "environment/record", "environment/definition", "deploylog", "internal/allow"}},
	{"environment/hosts", []string{"environment/tasks", "environment/report", "environment/record", "environment/definition", "internal/unwatched"}},
	{"environment", []string{"environment/*", "deploylog", "internal/allow", "internal/suggest", "internal/phrase", "internal/heap", "internal/budget", "internal/refusal", "internal/unwatched", "internal/acceptance"}},
	{"runner/invoke", []string{"protocol", "schema", "engine", "internal/crash", "internal/diskuse", "internal/pattern", "internal/phrase", "internal/terminal", "internal/unwatched"}},
	{"runner/diff", []string{"internal/phrase", "runner/invoke", "manifest/address", "protocol", "schema"}},
	{"runner/hidden", []string{"runner/invoke", "runner/diff"}},
	{"runner/walk", []string{"graph"}},
	{"runner/order", []string{"graph", "manifest/address"}},
	{"runner/partial", []string{"runner/diff", "protocol", "expression"}},
	{"runner/plugs", []string{"protocol", "engine", "manifest"}},
	{"runner/report", []string{"runner/diff", "manifest", "protocol"}},
	{"runner/redact", []string{"runner/diff", "runner/invoke", "runner/report", "manifest", "protocol"}},
	{"runner/outputs", []string{"runner/invoke", "runner/redact", "runner/report", "manifest"}},
	{"runner/failure", []string{"engine", "internal/crash", "manifest", "protocol", "runner/deviation", "runner/invoke", "runner/report"}},
	{"runner/taken", []string{"runner/report"}},
	{"runner/pins", []string{"engine", "protocol", "runner/diff", "runner/invoke", "runner/report"}},
	{"runner/deviation", []string{"runner/diff", "runner/report", "internal/phrase"}},
	{"runner/encoding", []string{"runner/report", "protocol"}},
	{"runner/inits", []string{"protocol", "schema", "runner/invoke"}},
	{"control/filetree", []string{"engine"}},
	{"control/origin", nil},
	{"runner", []string{"runner/*", "manifest", "manifest/address", "manifest/repeated", "protocol", "schema", "engine", "expression", "graph", "internal/crash", "internal/phrase"}},
	{"control/reconcile", []string{"deploylog", "internal/heap", "internal/crash"}},
	{"control/reconcile/reconciletest", []string{"deploylog", "deploylog/*"}},
	{"control/runs", []string{"deploylog", "internal/protected", "runner", "runner/*", "engine", "protocol", "internal/crash", "internal/pattern", "manifest/address"}},
	{"control/managed", []string{"control/runs", "deploylog", "internal/protected", "manifest/address", "runner/report"}},
	{"control/gc", []string{"build/record", "control/runs", "deploylog", "internal/atomicfile", "internal/diskuse", "internal/objects", "internal/artifacts", "internal/protected"}},
	{"control/clusters", []string{"control/reconcile", "pipeline/promotion", "pipeline/promotion/definition", "pipeline/promotion/object", "internal/kubewatch", "internal/phrase"}},
	{"control/targets", []string{"pipeline/promotion", "pipeline/promotion/definition", "environment/definition", "environment/tasks", "internal/phrase"}},
	{"control/reachable", nil},
	{"control/pipelines", []string{"control/reconcile", "runner", "pipeline", "pipeline/*", "deploylog", "internal/unwatched"}},
	{"control/environments", []string{"control/reconcile", "runner", "environment", "environment/*", "deploylog", "internal/phrase", "internal/refusal", "internal/unwatched"}},
	{"control/builds", []string{"control/reconcile", "runner", "build", "build/*", "inventory", "deploylog"}},
	{"control/submission", []string{"internal/contents", "control/work", "control/revision", "control/workers", "build", "build/*", "manifest", "manifest/vars", "expression", "schema", "engine", "inventory", "internal/artifacts", "internal/phrase", "internal/suggest", "internal/worktree", "internal/yamlfile", "internal/regularfile"}},
	{"control/submitted", []string{"control/submission", "control/packages", "control/revision", "build", "build/*", "inventory", "internal/objects"}},
	{"control/apply", []string{"control/locked", "control/managed", "control/work", "control/gc", "control/revision", "control/runs", "runner", "runner/failure", "runner/taken", "runner/report", "manifest", "manifest/vars", "engine", "deploylog", "internal/crash", "internal/planfile"}},
	{"control/workers", []string{"control/work", "inventory"}},
	{"control/packages", []string{"control/reconcile", "control/pipelines", "control/builds", "runner", "build", "build/*", "pipeline", "pipeline/*", "deploylog"}},
	{"control/promotion", []string{"control/reconcile", "control/pipelines", "control/environments", "runner", "pipeline", "pipeline/*", "environment", "environment/*", "deploylog", "internal/refusal"}},
	{"control/promotions", []string{"control/reconcile", "control/environments", "control/clusters", "control/targets", "pipeline/promotion", "pipeline/promotion/*", "environment", "environment/*", "runner", "deploylog", "internal/phrase", "internal/pullrequest", "internal/pullrequest/*", "internal/webhook", "internal/regularfile", "internal/unwatched"}},
	{"control/revision", []string{"engine", "internal/pattern"}},
	{"control/locked", []string{"control/revision", "engine", "internal/filelock", "internal/lockfile", "internal/modulesource", "internal/shipped", "manifest", "internal/regularfile"}},
	{"control/health", []string{"internal/phrase", "runner", "runner/report", "runner/diff", "manifest", "environment/*"}},
	{"control/jobs", []string{"internal/contents", "control/builds", "control/revision", "control/jobs/*", "runner/invoke", "build", "build/*", "engine", "deploylog", "inventory", "internal/artifacts", "internal/crash", "internal/duration", "internal/entrypoint", "internal/phrase", "internal/regularfile", "internal/pattern"}},
	{"control/jobs/*", []string{"control/jobs/*", "internal/entrypoint"}},
	{"control/rundirs", []string{"control/gc", "control/runs"}},
	{"control/masking", []string{"manifest", "expression", "schema", "runner/invoke", "internal/pattern"}},
	{"control/observed", []string{"control/runs", "deploylog", "protocol", "runner/report"}},
	{"control/inclusion", []string{"control/filetree", "manifest", "expression"}},
	{"control/work", []string{"control/inclusion", "internal/namedfile", "control/gc", "control/origin", "control/masking", "control/reachable", "control/rundirs", "control/runs", "control/revision", "control/health", "control/targets", "runner", "runner/*", "manifest", "manifest/declaration", "manifest/usage", "manifest/vars", "schema", "expression", "engine", "deploylog", "pipeline", "pipeline/*", "environment", "environment/*", "inventory", "internal/allow", "internal/shipped", "internal/planfile", "internal/objects", "internal/protected", "internal/crash"}},
	{"internal/approval", []string{"control/pipelines", "control/promotions", "control/environments", "pipeline", "pipeline/*", "deploylog", "internal/refusal", "internal/regularfile", "internal/pattern"}},
	{"internal/query", []string{"control/*", "runner/report", "pipeline", "pipeline/*", "environment", "environment/*", "build", "build/*", "deploylog", "internal/suggest", "internal/phrase"}},
	{"internal/query/querytest", []string{"build", "build/*", "control/builds", "control/environments", "pipeline", "pipeline/*", "environment", "environment/*", "deploylog", "internal/budget"}},
	{"internal/view", []string{"internal/view/excerpt", "runner/encoding", "internal/terminal", "internal/terminal/pane", "internal/authoring", "internal/phrase", "internal/query", "internal/picture", "runner", "runner/report", "runner/diff", "runner/invoke", "protocol", "engine", "control/*", "pipeline", "pipeline/*", "environment", "environment/*", "deploylog", "internal/crash"}},
	{"internal/view/excerpt", []string{"internal/terminal", "internal/phrase"}},
	{"internal/view/checks", []string{"internal/authoring", "internal/terminal"}},
	{"internal/view/groups", []string{"internal/query", "internal/terminal", "internal/terminal/pane", "internal/phrase", "build", "build/*", "deploylog"}},
	{"internal/identity", []string{"deploylog"}},
	{"internal/identity/oidc", []string{"internal/identity", "internal/yamlfile", "internal/pattern"}},
	{"internal/proposal", []string{"runner/encoding", "manifest", "build", "environment", "pipeline", "pipeline/approval", "pipeline/promotion", "internal/identity", "internal/notification"}},
	{"internal/feed", []string{"deploylog"}},
	{"internal/client", []string{"engine", "internal/artifacts", "control/managed", "control/reconcile", "deploylog", "deploylog/snapshotfile", "inventory", "internal/objects", "internal/phrase", "internal/proposal"}},
	{"internal/scope", []string{"deploylog", "environment/record", "internal/identity", "pipeline/record"}},
	{"internal/server", []string{"internal/allow", "internal/places", "internal/scope", "runner/encoding", "engine", "internal/artifacts", "internal/crash", "internal/approval", "internal/identity", "internal/notification", "internal/proposal", "internal/query", "internal/objects", "internal/pattern", "internal/phrase", "control/*", "pipeline", "pipeline/*", "pipeline/promotion/definition", "environment", "environment/*", "build", "build/*", "deploylog", "deploylog/snapshotfile", "inventory", "internal/budget", "internal/duration", "internal/refusal", "internal/feed", "internal/acceptance"}},
	{"internal/pages", []string{"internal/scope", "runner/encoding", "internal/identity", "internal/query", "internal/terminal", "internal/phrase", "control/jobs", "control/managed", "control/pipelines", "control/environments", "control/promotions", "control/runs", "control/work", "internal/objects", "runner/report", "runner/diff", "pipeline", "pipeline/*", "environment", "environment/*", "build", "build/*", "deploylog"}},
	{"internal/listen", []string{"internal/regularfile"}},
	{"internal/tracing", []string{"runner", "runner/report", "runner/invoke", "engine"}},
	{"internal/export", []string{"deploylog", "internal/phrase"}},
	{"internal/notification", []string{"build/record", "environment/record", "pipeline/promotion", "pipeline/record", "deploylog", "internal/crash", "internal/webhook", "internal/yamlfile", "internal/regularfile", "internal/pattern"}},
	{"internal/webhook", nil},
	{"internal/metrics", []string{"internal/query", "pipeline/promotion", "deploylog"}},
	{"internal/picture", []string{"internal/phrase"}},
	{"internal/planfile", []string{"internal/objects", "manifest", "manifest/vars", "runner/report", "runner/diff", "protocol", "schema", "internal/pattern"}},
	{"internal/shipped", []string{"manifest/repeated", "protocol", "schema", "engine", "manifest", "expression", "runner", "runner/diff", "runner/inits", "runner/plugs", "resources/*", "internal/suggest", "internal/atomicfile", "internal/usercache", "internal/crash"}},
	{"internal/tfpackage", []string{"internal/pattern"}},
	{"internal/tfimage", []string{"protocol", "schema", "engine", "resources/terraform", "internal/shipped", "internal/suggest", "internal/crash", "internal/pattern"}},
	{"internal/authoring", []string{"protocol", "schema", "engine", "internal/crash", "internal/pattern", "runner/invoke"}},
	{"internal/architecture", nil},
	{"internal/killloop", nil},
	{"internal/cli", []string{"*"}},
	{"internal/cli/*", []string{"*"}},
	{"internal/early", []string{"internal/entrypoint", "resources/file"}},
	{"cmd/deployster", []string{"internal/cli", "internal/early"}},
	{"docs", nil},
	{"scripts", nil},
	{"examples", nil},
	{"examples/*", []string{"protocol"}},
}

// pure lists packages that must not import the standard packages of impure: they only calculate.
var pure = []string{
	"graph", "environment", "pipeline", "build/definition", "build/record", "build/recipe", "build/plan", "build/transition",
	"build/reason", "build", "pipeline/definition", "pipeline/record", "pipeline/approval", "pipeline/reason",
	"pipeline/deployment", "pipeline/effect", "pipeline/upstream", "pipeline/promotion", "pipeline/promotion/definition",
	"pipeline/promotion/window", "pipeline/outcome", "pipeline/step", "pipeline/walk", "environment/record", "environment/ordered",
	"environment/reason", "environment/report", "environment/hosts", "environment/tasks", "environment/definition",
}

var impure = []string{"context", "os", "net/http", "log/slog", "sync"}

// maxLines is how large a package may be outside of its tests, so that one reader
// can hold it in mind. The command line is many commands of one shape.
const maxLines = 6000

func TestNoPackageIsTooLarge(t *testing.T) {
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if matches([]string{"internal/cli", "internal/cli/*"}, name) {
			continue
		}
		lines := 0
		for _, file := range slices.Concat(p.GoFiles, p.IgnoredGoFiles) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			require.NoError(t, err)
			lines += bytes.Count(text, []byte("\n"))
		}
		if lines > maxLines {
			t.Errorf("%s has %d lines outside of its tests, more than %d: split it", name, lines, maxLines)
		}
	}
}

type listed struct {
	ImportPath     string
	Dir            string
	Imports        []string
	GoFiles        []string
	IgnoredGoFiles []string // for other systems
}

func TestEveryPackageImportsOnlyLowerFloors(t *testing.T) {
	packages := list(t)
	require.Greater(t, len(packages), 15)
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module)
		may, ok := allowed(name)
		if !ok {
			t.Errorf("%s is on no floor: give it a line in the table", name)
			continue
		}
		for _, imported := range p.Imports {
			switch ours, isOurs := strings.CutPrefix(imported, module); {
			case isOurs && !matches(may, ours):
				t.Errorf("%s must not import %s", name, ours)
			case imported == "testing" && !strings.HasSuffix(name, "test"):
				t.Errorf("%s is not for tests and must not import testing", name)
			case slices.Contains(pure, name) && slices.Contains(impure, imported):
				t.Errorf("%s must not import %s", name, imported)
			}
		}
		assert.NotContains(t, []string{"util", "utils", "common", "helpers", "types"}, path.Base(name), "a package is named after what it is for")
	}
}

func allowed(name string) ([]string, bool) {
	for _, f := range floors {
		if matches([]string{f.pkg}, name) {
			return f.may, true
		}
	}
	return nil, false
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if below, ok := strings.CutSuffix(p, "/*"); ok {
			return strings.HasPrefix(name, below+"/")
		}
		return p == "*" || p == name
	})
}

// goList asks for all packages once.
var goList = sync.OnceValues(func() ([]byte, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles,IgnoredGoFiles", "./...")
	cmd.Dir = "../.."
	return cmd.Output()
})

func list(t *testing.T) (packages []listed) {
	t.Helper()
	out, err := goList()
	require.NoError(t, err, "go list")
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p listed
		require.NoError(t, decoder.Decode(&p))
		packages = append(packages, p)
	}
	return packages
}
