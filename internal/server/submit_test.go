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

	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/identity"
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
	if err := os.WriteFile(filepath.Join(dir, "main.c"), []byte(text), 0o600); err != nil {
		y.Fatal(err)
	}
	a, err := from.Collect(y.Context(), dir, artifacts.Limits{})
	if err != nil {
		y.Fatal(err)
	}
	body, layer, err := from.Open(y.Context(), a.Digest)
	if err != nil {
		y.Fatal(err)
	}
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
	if err != nil {
		y.Fatal(err)
	}
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

func (y *yard) submit(who string, of body, header ...string) (status int, said string) {
	y.Helper()
	status, _, said = ask(y.T, "POST", y.url+"/v1/builds/commands/submit", who, string(mustJSON(y.T, of)), header...)
	return status, said
}

// submitted are the groups in the log.
func (y *yard) submitted() (all []deploylog.Event) {
	y.Helper()
	for e, err := range y.log.Read(y.Context(), deploylog.Filter{}) {
		if err != nil {
			y.Fatal(err)
		}
		if e.Name == record.GroupTriggered {
			all = append(all, e)
		}
	}
	return all
}

func (y *yard) put(who, digest string, layer artifacts.Layer, content []byte) (status int, said string) {
	y.Helper()
	status, _, said = ask(y.T, "PUT", y.url+"/v1/artifacts/"+digest+"?layer="+layer.Digest, who, string(content))
	return status, said
}

// Sources are brought by who may submit, as often as they like.
func TestSourcesAreBroughtByWhoMaySubmit(t *testing.T) {
	y := newYard(t)
	digest, layer, content := y.source("int main() {}")
	get := func(who string) int {
		status, _, _ := ask(t, "GET", y.url+"/v1/artifacts/"+digest, who, "")
		return status
	}
	for _, want := range []int{404, 200} {
		if got := get("operator"); got != want {
			t.Errorf("asked for the artifact: %d, want %d", got, want)
		}
		for _, who := range []string{"viewer", "of libc"} {
			if status, _ := y.put(who, digest, layer, content); status != 403 || get(who) != 403 {
				t.Errorf("%s brings an artifact: %d, %d", who, status, get(who))
			}
		}
		if status, said := y.put("operator", digest, layer, content); status != 200 || !strings.Contains(said, digest) {
			t.Errorf("%d %s", status, said)
		}
	}
}

// What is submitted is queued once, however often it is sent, as who has sent it.
func TestAGroupIsSubmittedWithItsSources(t *testing.T) {
	y := newYard(t)
	digest, layer, content := y.source("int main() {}")
	of := y.body(digest)
	if status, said := y.submit("operator", of); status != 422 || !strings.Contains(said, "is not here: put it first") {
		t.Errorf("without its sources: %d %s", status, said)
	}
	if status, said := y.put("operator", digest, layer, content); status != 200 {
		t.Fatal(status, said)
	}
	for _, who := range []string{"viewer", "of base"} {
		if status, said := y.submit(who, of); status != 403 {
			t.Errorf("%s submits: %d %s", who, status, said)
		}
	}
	status, first := y.submit("operator", of, "Idempotency-Key", "once")
	if again, said := y.submit("operator", of, "Idempotency-Key", "once"); status != 200 || again != 200 || said != first {
		t.Errorf("%d %s, and first %d %s", again, said, status, first)
	}
	groups := y.submitted()
	if len(groups) != 1 || groups[0].Deployment != "base-1" || !strings.Contains(string(groups[0].Data), `"by":"the operator"`) {
		t.Fatalf("submitted are %v", groups)
	}
	for e, err := range y.log.Read(t.Context(), deploylog.Filter{}) {
		if text := string(e.Data); err != nil || strings.Contains(text, "forged") || strings.Contains(text, "theirs") {
			t.Errorf("%v: %s", err, text)
		}
	}
	if status, said := y.submit("operator", of); status != 200 || !strings.Contains(said, "base-2") {
		t.Errorf("another one: %d %s", status, said)
	}
}

func TestHostileSubmissions(t *testing.T) {
	y := newYard(t)
	digest, layer, content := y.source("int main() {}")
	if status, said := y.put("operator", digest, layer, content); status != 200 {
		t.Fatal(status, said)
	}
	for name, test := range map[string]struct {
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
		if status, said := y.submit("operator", of, header...); status != test.want || !strings.Contains(said, test.says) {
			t.Errorf("%s: %d %.500s, want %d %s", name, status, said, test.want, test.says)
		}
	}
	if all := y.submitted(); len(all) != 1 {
		t.Errorf("submitted are %v", all)
	}
	for text, want := range map[string]int{"": 422, "null": 422, "[]": 422, "{": 422, `{"jobs":` + strings.Repeat("[", 20_000): 422, strings.Repeat(" ", 33<<20): 413} {
		if status, _, said := ask(t, "POST", y.url+"/v1/builds/commands/submit", "operator", text); status != want {
			t.Errorf("%.20s: %d %.200s, want %d", text, status, said, want)
		}
	}
}

func manyWaits() (all []body) {
	for range 5 {
		all = append(all, body{"package": "a", "waits": "1-1000000"})
	}
	return all
}

// Nothing is stored but artifacts, whatever is sent.
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
		if status != test.want || y.kept.Has(digest) {
			t.Errorf("%s: %d %s", name, status, said)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), "PUT", y.url+"/v1/artifacts/"+digest+"?layer="+layer.Digest, io.MultiReader(bytes.NewReader(content)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer operator")
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusLengthRequired {
		t.Errorf("without a length: %s", answer.Status)
	}
}

// What workers there are, and which images they have, the server says; of how it reaches them
// nothing.
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
	for _, test := range []struct {
		method, path, who, body string
		want                    int
		says                    string
	}{
		{"GET", "", "viewer", "", 200, `"identity":"ours","platform":"linux/` + runtime.GOARCH},
		{"POST", "/one/look", "nobody", "", 403, "may not"},
		{"POST", "/one/look", "viewer", "", 200, `["linux/amd64"]`},
		{"POST", "/away/look", "operator", "", 409, "worker away does not answer"},
		{"POST", "/other/look", "operator", "", 404, "no such worker"},
		{"POST", "/one/images", "of one", `{"image":"a","pull":"always"}`, 403, "may not"},
		{"POST", "/one/images", "viewer", `{"image":"a","pull":"always"}`, 403, "may not"},
		{"POST", "/one/images", "operator", `{"image":"a","pull":"always"}`, 200, `{"id":"sha256:aa","digest":"sha256:bb","os":"linux","arch":"amd64"}`},
		{"POST", "/one/images", "operator", `{"image":"a","pull":"never"}`, 200, "it is to be pulled"},
		{"POST", "/one/images", "operator", `{"image":"gone","pull":"never"}`, 200, `{"problem":"no such image"}`},
		{"POST", "/one/images", "operator", `{"image":"panics","pull":"never"}`, 200, `{"problem":`},
		{"POST", "/other/images", "operator", `{"image":"a","pull":"always"}`, 404, "no such worker"},
		{"POST", "/one/images", "operator", `{"image":"a","pull":"whenever"}`, 422, "pull"},
		{"POST", "/one/images", "operator", `{"image":"","pull":"never"}`, 422, "image"},
	} {
		status, _, said := ask(t, test.method, y.url+"/v1/workers"+test.path, test.who, test.body, "Content-Type", "application/json")
		if status != test.want || !strings.Contains(said, test.says) || strings.Contains(said, "ssh://") {
			t.Errorf("%s %s as %s: %d %s, want %d %s", test.path, test.body, test.who, status, said, test.want, test.says)
		}
	}
	// Who asks for what takes long hears that it goes on, and may leave.
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", y.url+"/v1/workers/one/images", strings.NewReader(`{"image":"slow","pull":"never"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer operator")
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if n, err := answer.Body.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("%d bytes were read: %v", n, err)
	}
	leave()
}

// A server without workers says so.
func TestAServerWithoutWorkers(t *testing.T) {
	_, url := newServer(t, logOf(t, 0))
	if status, _, said := ask(t, "GET", url+"/v1/workers", "viewer", ""); status != 409 || !strings.Contains(said, "has no workers") {
		t.Errorf("%d %s", status, said)
	}
}
