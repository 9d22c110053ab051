package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/inventory"
)

// yard is a server that has jobs done on a worker.
type yard struct {
	*testing.T
	log   deploylog.Log
	store objects.Store
	kept  *artifacts.Store
	url   string

	image func(ctx context.Context, ref string, policy engine.PullPolicy) (engine.Image, error)
}

func newYard(t *testing.T) *yard {
	y := &yard{T: t, log: logOf(t, 0), store: objects.In(t.TempDir(), nil), kept: artifacts.In(filepath.Join(t.TempDir(), "artifacts"))}
	_, y.url = newServer(t, y.log, func(o *server.Options) {
		fresh(o)
		o.Objects, o.Artifacts, o.Workers, o.Heartbeat = y.store, y.kept, y, time.Millisecond
		o.Identify = func(r *http.Request) (identity.Identity, error) {
			if name, of := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer of "); of {
				return identity.Identity{Name: name, Grants: []identity.Grant{{Role: identity.Admin, Pipelines: []string{name, "base", "one"}}}}, nil
			}
			return byRole(r)
		}
	})
	return y
}

// Workers, Identity, Look and Image implement server.Workers.
func (*yard) Workers() ([]inventory.Host, error) {
	return []inventory.Host{{Name: "one", Endpoint: "ssh://root@one", Slots: 2, Attributes: map[string][]string{"role": {"builder"}}}, {Name: "away"}}, nil
}
func (*yard) Identity() string { return "ours" }
func (*yard) Look(_ context.Context, name string) ([]string, error) {
	if name == "away" {
		return nil, errors.New("worker away does not answer")
	}
	return []string{"linux/amd64"}, nil
}
func (y *yard) Image(ctx context.Context, _, ref string, policy engine.PullPolicy) (engine.Image, error) {
	return y.image(ctx, ref, policy)
}

// source is an artifact of a file, with its layer.
func (y *yard) source(text string) (digest string, layer artifacts.Layer, content []byte) {
	y.Helper()
	from, dir := artifacts.In(filepath.Join(y.TempDir(), "from")), y.TempDir()
	require.NoError(y, os.WriteFile(filepath.Join(dir, "main.c"), []byte(text), 0o600))
	a := must.Get(from.Collect(y.Context(), dir, artifacts.Limits{}))(y)
	body, layer, err := from.Open(y.Context(), a.Digest)
	require.NoError(y, err)
	defer body.Close()
	if content, err = io.ReadAll(body); err != nil {
		y.Fatal(err)
	}
	return a.Digest, layer, content
}

// body is that of a group of one job with sources, of which all but the sources is kept.
func (y *yard) body(sources string, change ...func(*recipe.Recipe)) body {
	y.Helper()
	r := recipe.Recipe{Image: recipe.Image{Image: "build:1", ID: "sha256:aa"}, Sources: []recipe.Source{{Path: "src"}}, Artifact: sources}
	for _, c := range change {
		c(&r)
	}
	documents, err := recipe.Encode([]recipe.Recipe{r})
	require.NoError(y, err)
	carries := map[string]string{}
	for name, text := range map[string][]byte{"packages.yaml": []byte("group: base"), recipe.Name(0): documents[recipe.Name(0)]} {
		if carries[name], err = y.store.Keep(text); err != nil {
			y.Fatal(err)
		}
	}
	return body{
		"name": "base", "file": "packages.yaml", "carries": carries, "max_lost": 3,
		"places": []body{{"platform": "linux/amd64", "inventory": "theirs"}},
		"jobs":   []body{{"package": "libc", "recipe": 0, "inputs": "forged"}},
	}
}

func (y *yard) submit(status int, says, who string, of body, header ...string) (said string) {
	return post(y.T, status, says, y.url+"/v1/builds/commands/submit", who, of, header...)
}

func (y *yard) submitted() (all []deploylog.Event) {
	for e, err := range y.log.Read(y.Context(), deploylog.Filter{}) {
		require.NoError(y, err)
		if e.Name == record.GroupTriggered {
			all = append(all, e)
		}
	}
	return all
}

func (y *yard) put(status int, says, who, digest string, layer artifacts.Layer, content []byte) {
	expect(y.T, status, says, "PUT", y.url+"/v1/artifacts/"+digest+"?layer="+layer.Digest, who, string(content))
}

func TestSourcesAreBroughtByWhoMaySubmit(t *testing.T) {
	y := newYard(t)
	digest, layer, content := y.source("int main() {}")
	for _, want := range []int{404, 200} {
		expect(t, want, "", "GET", y.url+"/v1/artifacts/"+digest, "operator", "")
		for _, who := range []string{"viewer", "of libc"} {
			y.put(403, "", who, digest, layer, content)
			expect(t, 403, "", "GET", y.url+"/v1/artifacts/"+digest, who, "")
		}
		y.put(200, digest, "operator", digest, layer, content)
	}
}

func TestAGroupIsSubmittedWithItsSources(t *testing.T) {
	y := newYard(t)
	digest, layer, content := y.source("int main() {}")
	of := y.body(digest)
	y.submit(422, "is not here: put it first", "operator", of)
	y.put(200, "", "operator", digest, layer, content)
	for _, who := range []string{"viewer", "of base"} {
		y.submit(403, "", who, of)
	}
	first := y.submit(200, "", "operator", of, "Idempotency-Key", "once")
	assert.Equal(t, first, y.submit(200, "", "operator", of, "Idempotency-Key", "once"))
	groups := y.submitted()
	if len(groups) != 1 || groups[0].Deployment != "base-1" || !strings.Contains(string(groups[0].Data), `"by":"the operator"`) {
		t.Fatalf("submitted are %v", groups)
	}
	for e, err := range y.log.Read(t.Context(), deploylog.Filter{}) {
		text := string(e.Data)
		assert.True(t, err == nil && !strings.Contains(text, "forged") && !strings.Contains(text, "theirs"), "%v: %s", err, text)
	}
	y.submit(200, "base-2", "operator", of)
}

func TestHostileSubmissions(t *testing.T) {
	y := newYard(t)
	digest, layer, content := y.source("int main() {}")
	y.put(200, "", "operator", digest, layer, content)
	for _, test := range map[string]struct {
		change func(of body)
		want   int
		says   string
	}{
		"who wants it":          {func(of body) { of["by"] = "root" }, 422, "unknown field"},
		"an id":                 {func(of body) { of["id"] = "base-9" }, 422, "unknown field"},
		"a pipeline":            {func(of body) { of["pipeline"] = body{"pipeline": "one"} }, 422, "unknown field"},
		"no name":               {func(of body) { delete(of, "name") }, 422, "cannot be its name"},
		"no jobs":               {func(of body) { of["jobs"] = []body{} }, 409, "it has no jobs"},
		"no place":              {func(of body) { of["places"] = []body{} }, 422, "place 0 of 0"},
		"a job behind":          {func(of body) { of["jobs"] = []body{{"package": "a", "waits": "2"}} }, 409, "waits for job 2"},
		"many numbers":          {func(of body) { of["jobs"] = manyWaits() }, 422, "too large"},
		"numbers that are none": {func(of body) { of["jobs"] = []body{{"package": "a", "waits": "2-1"}} }, 422, "do not ascend"},
		"a negative bound":      {func(of body) { of["max_lost"] = -1 }, 409, "max_lost is -1"},
		"no recipe":             {func(of body) { of["jobs"] = []body{{"package": "a", "recipe": 1}} }, 422, "recipe 1"},
		"no object":             {func(of body) { of["carries"] = body{"packages.yaml": strings.Repeat("0", 64)} }, 422, "is not here"},
		"a path as an object":   {func(of body) { of["carries"] = body{"packages.yaml": "../../etc/passwd"} }, 422, "is not here"},
		"If-Match":              {nil, 200, "base-1"},
	} {
		of := y.body(digest)
		var header []string
		if test.change != nil {
			test.change(of)
		} else {
			header = []string{"If-Match", `"7"`} // which nothing of it heeds
		}
		y.submit(test.want, test.says, "operator", of, header...)
	}
	assert.Len(t, y.submitted(), 1, "submitted")
	for text, want := range map[string]int{"": 422, "null": 422, "[]": 422, "{": 422, `{"jobs":` + strings.Repeat("[", 20_000): 422, strings.Repeat(" ", 33<<20): 413} {
		expect(t, want, "", "POST", y.url+"/v1/builds/commands/submit", "operator", text)
	}
}

func manyWaits() (all []body) {
	for range 5 {
		all = append(all, body{"package": "a", "waits": "1-1000000"})
	}
	return all
}

func TestHostileArtifacts(t *testing.T) {
	y := newYard(t)
	digest, layer, content := y.source("int main() {}")
	zeros := "sha256:" + strings.Repeat("0", 64)
	tar := []byte("no tar")
	for name, test := range map[string]struct {
		digest, layer, body string
		want                int
	}{
		"another digest":   {zeros, layer.Digest, string(content), 422},
		"another layer":    {digest, zeros, string(content), 422},
		"no layer":         {digest, "", string(content), 422},
		"a path":           {"..%2f..%2fx", layer.Digest, string(content), 422},
		"altered":          {digest, layer.Digest, strings.Replace(string(content), "main()", "niam()", 1), 422},
		"half":             {digest, layer.Digest, string(content[:100]), 422},
		"nothing":          {digest, layer.Digest, "", 422},
		"what is no layer": {zeros, fmt.Sprintf("sha256:%x", sha256.Sum256(tar)), string(tar), 422},
	} {
		status, _, said := ask(t, "PUT", y.url+"/v1/artifacts/"+test.digest+"?layer="+test.layer, "operator", test.body)
		assert.True(t, status == test.want && !y.kept.Has(digest), "%s: %d %s", name, status, said)
	}
	r, err := http.NewRequestWithContext(t.Context(), "PUT", y.url+"/v1/artifacts/"+digest+"?layer="+layer.Digest, io.MultiReader(bytes.NewReader(content)))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer operator")
	answer := must.Get(http.DefaultTransport.RoundTrip(r))(t)
	_ = answer.Body.Close()
	assert.Equal(t, http.StatusLengthRequired, answer.StatusCode, "without a length: %s", answer.Status)
}

func TestTheWorkersOfAServerAreAskedThroughIt(t *testing.T) {
	y := newYard(t)
	y.image = func(ctx context.Context, ref string, policy engine.PullPolicy) (engine.Image, error) {
		switch {
		case ref == "gone":
			return engine.Image{}, errors.New("no such image")
		case ref == "panics":
			panic("it has no such field")
		case ref == "slow":
			<-ctx.Done()
			return engine.Image{}, context.Cause(ctx)
		case policy != engine.PullAlways:
			return engine.Image{}, errors.New("it is to be pulled")
		}
		return engine.Image{ID: "sha256:aa", Digest: "sha256:bb", OS: "linux", Arch: "amd64"}, nil
	}
	asks := func(want int, says, method, path, who, body string) {
		status, _, said := ask(t, method, y.url+"/v1/workers"+path, who, body)
		answers(t, want, says, path, body, who)(status, said)
		assert.NotContains(t, said, "ssh://")
	}
	asks(200, `"identity":"ours","platform":"linux/`+runtime.GOARCH, "GET", "", "viewer", "")
	asks(403, "may not", "POST", "/one/look", "nobody", "")
	asks(200, `["linux/amd64"]`, "POST", "/one/look", "viewer", "")
	asks(409, "worker away does not answer", "POST", "/away/look", "operator", "")
	asks(404, "no such worker", "POST", "/other/look", "operator", "")
	asks(403, "may not", "POST", "/one/images", "of one", `{"image":"a","pull":"always"}`)
	asks(403, "may not", "POST", "/one/images", "viewer", `{"image":"a","pull":"always"}`)
	asks(200, `{"id":"sha256:aa","digest":"sha256:bb","os":"linux","arch":"amd64"}`, "POST", "/one/images", "operator", `{"image":"a","pull":"always"}`)
	asks(200, "it is to be pulled", "POST", "/one/images", "operator", `{"image":"a","pull":"never"}`)
	asks(200, `{"problem":"no such image"}`, "POST", "/one/images", "operator", `{"image":"gone","pull":"never"}`)
	asks(200, `{"problem":`, "POST", "/one/images", "operator", `{"image":"panics","pull":"never"}`)
	asks(404, "no such worker", "POST", "/other/images", "operator", `{"image":"a","pull":"always"}`)
	asks(422, "pull", "POST", "/one/images", "operator", `{"image":"a","pull":"whenever"}`)
	asks(422, "image", "POST", "/one/images", "operator", `{"image":"","pull":"never"}`)
	// Who asks for what takes long hears that it goes on, and may leave.
	ctx, leave := context.WithCancel(t.Context())
	r := must.Get(http.NewRequestWithContext(ctx, "POST", y.url+"/v1/workers/one/images", strings.NewReader(`{"image":"slow","pull":"never"}`)))(t)
	r.Header.Set("Authorization", "Bearer operator")
	answer := must.Get(http.DefaultTransport.RoundTrip(r))(t)
	defer answer.Body.Close()
	n, err := answer.Body.Read(make([]byte, 1))
	assert.True(t, n == 1 && err == nil, "%d bytes were read: %v", n, err)
	leave()
}

func TestTheLogOfAJobIsReadInParts(t *testing.T) {
	log, dir := logtest.NewMemory().Open(), t.TempDir()
	require.NoError(t, must.Fail(log.Append(t.Context(), groups(t)...)))
	_, url := newServer(t, log, func(o *server.Options) { o.Workspace = dir })
	write := func(job int, text string) {
		at := filepath.Join(dir, jobs.LogName("base-1", job, 1))
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o700))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o600))
	}
	write(1, "making libc\n")
	long := strings.Repeat("x", 2<<20)
	write(2, long)
	write(3, "nobody ran it")
	secret := filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(secret, []byte("the key"), 0o600))
	for _, test := range []struct {
		path, who string
		want      int
		says      string
	}{
		{"base-1/jobs/1/log", "viewer", 200, "making libc\n"},
		{"base/jobs/libc/log?attempt=1", "viewer", 200, "making libc\n"},
		{"base-1/jobs/1/log?offset=7&limit=3", "viewer", 200, "lib"},
		{"base-1/jobs/1/log?offset=12", "viewer", 200, ""},
		{"base-1/jobs/1/log?offset=9223372036854775807", "viewer", 200, ""},
		{"base-1/jobs/2/log", "viewer", 200, long[:1<<20]},
		{"base-1/jobs/2/log?limit=1048577", "viewer", 422, "limit"},
		{"base-1/jobs/1/log?offset=-1", "viewer", 422, "offset"},
		{"base-1/jobs/1/log?attempt=2", "viewer", 404, "no such attempt"},
		{"base-1/jobs/1/log?attempt=-1", "viewer", 422, "attempt"},
		{"base-1/jobs/3/log", "viewer", 404, "no such attempt"},
		{"base-1/jobs/1/log", "nobody", 403, "may not"},
		{"base-1/jobs/99/log", "viewer", 404, ""},
		{"base-9/jobs/1/log", "viewer", 404, ""},
		{"base-1%2F..%2F..%2F../jobs/1/log", "viewer", 404, ""},
	} {
		status, header, said := ask(t, "GET", url+"/v1/builds/"+test.path, test.who, "")
		right := status == test.want && strings.Contains(said, test.says)
		if status == http.StatusOK {
			right = right && said == test.says && header.Get(server.LogSize) != ""
		}
		assert.True(t, right, "%s as %s: %d %.100q %v, want %d %.100q", test.path, test.who, status, said, header, test.want, test.says)
	}
	at := filepath.Join(dir, jobs.LogName("base-1", 1, 1))
	require.NoError(t, os.Remove(at))
	expect(t, 404, "no log of it here", "GET", url+"/v1/builds/base-1/jobs/1/log", "viewer", "")
	require.NoError(t, os.Symlink(secret, at))
	status, _, said := ask(t, "GET", url+"/v1/builds/base-1/jobs/1/log", "viewer", "")
	assert.True(t, status == 500 && !strings.Contains(said, "key"), "a link: %d %s", status, said)
}
