package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/must"
)

// packagers is a server that has packages built, and somebody elsewhere with their sources.
type packagers struct {
	*makers
	server *run
	far    asker
}

func newPackagers(t *testing.T) *packagers {
	t.Helper()
	p := &packagers{makers: newOCIMakers(t)}
	p.far = asker{program: binary, dir: t.TempDir(), server: "unix:" + filepath.Join(p.dir, "socket"), token: p.token("ci", "operator")}
	definition := must.Get(os.ReadFile(filepath.Join(p.dir, "packages.yaml")))(t)
	sourced := strings.Replace(string(definition), "network: none", `network: none
  sources: [src]
  secrets: {TOKEN: "{{ token }}"}`, 1)
	for _, dir := range []string{p.dir, p.far.dir} {
		for name, text := range map[string]string{"packages.yaml": sourced, "src/main.c": "int main() {}", "variables.yaml": "token: hunter2\n"} {
			at := filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o700))
			require.NoError(t, os.WriteFile(at, []byte(text), 0o600))
		}
	}
	p.write("inventory.yaml", "name: ours\nhosts: [{name: only, engine: oci, slots: 2}]\n")
	p.begin()
	return p
}

func (p *packagers) begin() {
	p.Helper()
	p.server = p.serve("socket", append([]string{"--output", "json"}, p.flags...)...)
}

func (p *packagers) end() {
	p.Helper()
	p.terminate(p.server)
	if code := p.exit(p.server); code != 0 {
		p.Errorf("exit %d\n%s", code, p.server.out)
	}
}

// document is what was said as JSON, without which group it is.
func document(t *testing.T, said string) map[string]any {
	var all map[string]any
	require.NoError(t, json.Unmarshal([]byte(said), &all), "%s", said)
	delete(all, "group")
	delete(all, "event")
	return all
}

// stable is what was said without times, which go on.
func stable(said string) string {
	return regexp.MustCompile(`(?m)[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+Z?|"?[0-9.]+(ms|s|m)"?|[0-9]{7,}`).ReplaceAllString(said, "T")
}

// Whoever has but a checkout and a token has the workers of the server build what is in the
// checkout, and sees what they would see there.
func TestAGroupIsSubmittedThroughAServer(t *testing.T) {
	t.Parallel()
	p := newPackagers(t)
	nobody, viewer := p.far, p.far
	nobody.token, viewer.token = "dpl_01X_wrong", p.token("viewer", "viewer")
	submit := []string{"build", "submit", "-f", "packages.yaml", "--var-file", "variables.yaml", "--pull", "never", "--output", "json"}
	nobody.want(t, 1, "a valid token is needed", submit...)
	viewer.want(t, 1, "you may not do this", submit...)
	p.far.want(t, 3, "the jobs are done by the workers of server", append(submit, "--inventory", "inventory.yaml")...)
	there, code := p.far.run(t, submit...)
	require.Zero(t, code, there)
	p.until(1, func(e deploylog.Event) bool { return e.Name == record.GroupFinished })
	assert.Len(t, p.artifacts("base-1"), 8, "of 8 jobs there")
	p.wantBy(record.GroupTriggered, "token ci")
	for _, args := range [][]string{{"list"}, {"status", "base-1"}, {"jobs", "base-1", "--output", "json"}, {"explain", "base-1"}, {"forecast", "base-1"}, {"logs", "base-1", "1"}, {"logs", "base-1", "1", "--output", "json"}} {
		args = append([]string{"build"}, args...)
		here := p.deployster(args...)
		said, code := p.far.run(t, args...)
		assert.True(t, code == 0 && said == here, "%q: exit %d\nthere\n%s\nhere\n%s", args, code, said, here)
	}
	here := p.must(submit[1:]...)
	assert.Equal(t, document(t, there), document(t, here), "there\n%s\nhere\n%s", there, here)
	for _, e := range p.events() {
		assert.NotContains(t, string(e.Data), "hunter2", "a secret is in %s", e.Data)
	}
	left, err := os.ReadDir(filepath.Join(p.far.dir, ".deployster"))
	assert.True(t, err == nil && len(left) == 0, "left are %v, %v", left, err)
	p.until(2, func(e deploylog.Event) bool { return e.Name == record.GroupFinished })

	// What cannot be queued any more is not, and can be again.
	p.hold("manual")
	p.far.want(t, 0, "8 jobs", append(submit[:len(submit)-2:len(submit)-2], "--no-reuse")...)
	p.making("manual")
	p.until(7, func(e deploylog.Event) bool { return e.Name == record.JobFinished && e.Deployment == "base-3" })
	for _, args := range [][]string{{"explain", "base-3"}, {"forecast", "base-3", "--output", "json"}} {
		args = append([]string{"build"}, args...)
		here := stable(p.deployster(args...))
		said, code := p.far.run(t, args...)
		assert.True(t, code == 0 && stable(said) == here, "%q: exit %d\nthere\n%s\nhere\n%s", args, code, said, here)
	}
	require.NoError(t, os.WriteFile(filepath.Join(p.far.dir, "other.yaml"), []byte("name: other\nhosts: [{name: else, engine: oci}]\n"), 0o600))
	p.far.want(t, 0, "inventory ours", "explain", "group/base-3", "--inventory", "other.yaml")
	p.far.want(t, 3, "there is no such file", "explain", "group/base-3", "--inventory", "none.yaml")
	followed := make(chan string)
	go func() {
		said, _ := p.far.run(t, "build", "logs", "base-3", "manual", "--follow")
		followed <- said
	}()
	p.far.want(t, 0, "build group base-3 is", "build", "cancel", "base-3", "--wait")
	if said := <-followed; !strings.Contains(said, "making manual\n") || !strings.Contains(said, "manual (job 8) of base-3 is CancelComplete") {
		t.Errorf("followed was %q", said)
	}
	p.release("manual")
	p.far.want(t, 0, "build group base-3 is queued again", "build", "retry", "base-3")
	p.until(3, func(e deploylog.Event) bool { return e.Name == record.GroupFinished })
	p.wantBy(record.GroupCanceling, "token ci")
	p.wantBy(record.GroupRetried, "token ci")
	p.end()
}

// losing is a way to the server on which that is killed when it is to do what is sent to paths that
// end so, and once more when it has done that and its answer is lost. sent is how often that was
// sent.
func (p *packagers) losing(path string) (url string, sent *atomic.Int64) {
	p.Helper()
	sent = new(atomic.Int64)
	return p.through("socket", func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		if !strings.HasSuffix(r.URL.Path, path) || sent.Load() == 2 {
			server.ServeHTTP(w, r)
			return
		}
		if sent.Add(1) == 2 {
			server.ServeHTTP(httptest.NewRecorder(), r)
		}
		p.kill(p.server)
		p.begin()
		panic(http.ErrAbortHandler)
	}), sent
}

// The server is killed when it has the sources and is to queue the group, and once more when it
// has queued it and its answer is lost. There is one group then, with its sources.
func TestAServerThatIsKilledWhileAGroupIsSubmitted(t *testing.T) {
	t.Parallel()
	p := newPackagers(t)
	p.hold("manual")
	between, submitted := p.losing("/commands/submit")
	p.far.server = between
	p.far.want(t, 0, "the server builds it: deployster build status base-1", "build", "submit", "-f", "packages.yaml", "--var-file", "variables.yaml", "--pull", "never")
	if n := submitted.Load(); n != 2 || p.count("base-1", record.GroupTriggered) != 1 || p.count("base-2", record.GroupTriggered) != 0 {
		t.Errorf("it was sent %d times and again: %v", n, p.names())
	}
	p.release("manual")
	p.until(1, func(e deploylog.Event) bool { return e.Name == record.GroupFinished })
	assert.Len(t, p.artifacts("base-1"), 8, "of 8 jobs there")
	p.end()
	store := artifacts.In(filepath.Join(p.dir, ".deployster", "artifacts"))
	for _, digest := range p.artifacts("base-1") {
		assert.NoError(t, store.Verify(t.Context(), digest))
	}
}

// Whoever has but a checkout and a token releases a revision that carries a group of packages,
// with their sources, and sees what they would see where the log is. The server is killed when its
// answer is lost; there is one revision then, which is built.
func TestARevisionIsReleasedThatCarriesAGroupThroughAServer(t *testing.T) {
	t.Parallel()
	p := newPackagers(t)
	admin := p.far
	admin.token = p.token("root", "admin")
	for _, dir := range []string{p.dir, p.far.dir} {
		text := "pipeline: base\nstages:\n  - {name: make, build: {group: packages.yaml, packages: [curl]}}\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "pipeline.yaml"), []byte(text), 0o600))
	}
	admin.want(t, 0, "pipeline base is defined, 1 stage", "pipeline", "apply", "-f", "pipeline.yaml", "--yes")
	release := func(revision string) []string {
		return []string{"pipeline", "release", "base", revision, "--var-file", "variables.yaml", "--pull", "never"}
	}
	between, sent := p.losing("/commands/release")
	far := p.far
	far.server = between
	there, code := far.run(t, release("1")...)
	if code != 0 || !strings.Contains(there, "revision 1 of pipeline base is released") || sent.Load() != 2 {
		t.Fatalf("exit %d, sent %d times: %s", code, sent.Load(), there)
	}
	p.far.want(t, 1, "revision 1 of pipeline base is already released", release("1")...)
	p.until(1, func(e deploylog.Event) bool { return e.Name == "pipeline-finished-successfully" })
	assert.Len(t, p.artifacts("base-1"), 8, "of 8 jobs there")
	p.wantBy("pipeline-started", "token ci")
	beside := p.start(append(release("2"), "--engine", "oci")...)
	code = p.exit(beside)
	here := regexp.MustCompile(`event [0-9]+`).ReplaceAllString(strings.ReplaceAll(beside.out.String(), "revision 2", "revision 1"), "event 4")
	require.True(t, code == 0 && here == there, "there\n%s\nhere, exit %d\n%s", there, code, here)
	p.until(2, func(e deploylog.Event) bool { return e.Name == "pipeline-finished-successfully" })
	for _, e := range p.events() {
		assert.NotContains(t, string(e.Data), "hunter2", "a secret is in %s", e.Data)
	}
	left, err := os.ReadDir(filepath.Join(p.far.dir, ".deployster"))
	assert.True(t, err == nil && len(left) == 0, "left are %v, %v", left, err)
	p.end()
}
