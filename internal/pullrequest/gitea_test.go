//go:build gitea

package pullrequest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/pullrequest"
	"github.com/deployster-go/deployster/internal/pullrequest/provider"
	"github.com/deployster-go/deployster/internal/pullrequest/value"
	"github.com/deployster-go/deployster/internal/waittest"
)

// A real Gitea takes minutes to build, so scripts/gitea does that, and this test is not among the
// others. With -record it writes what Gitea answers, which another test reads each time.
var (
	giteaProgram = flag.String("gitea", "", "the program")
	giteaSources = flag.String("gitea-sources", "", "where its sources are, which hold its texts and templates")
	record       = flag.Bool("record", false, "write what it answers to provider/testdata/gitea.json")
)

// exchange is a request to the API and what was answered.
type exchange struct {
	Request string            `json:"request"`
	Status  int               `json:"status"`
	Header  map[string]string `json:"header,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"`
}

// gitea is a real one, with a user and a repository, and beside it who asks it through a proxy that
// notes what was asked.
type gitea struct {
	*testing.T
	address, token string
	proxy          *httptest.Server
	client         *pullrequest.Client
	place          pullrequest.Place
	workspace      string

	mu      sync.Mutex
	said    []exchange
	changes []string // requests that may change something
}

func newGitea(t *testing.T) *gitea {
	t.Helper()
	path := must.Get(value.Parse("image.tag"))(t)
	g := &gitea{T: t, workspace: t.TempDir()}
	g.start()
	g.proxied()
	g.api(http.MethodPost, "/user/repos", map[string]any{"name": "deploy", "auto_init": true, "default_branch": "main"}, nil)
	g.api(http.MethodPost, "/repos/acme/deploy/contents/"+file, map[string]any{"content": base64.StdEncoding.EncodeToString([]byte(before)), "message": "prod", "branch": "main"}, nil)
	require.NoError(t, os.WriteFile(filepath.Join(g.workspace, "token"), []byte(g.token), 0o600))
	g.place = pullrequest.Place{
		Repository: g.proxy.URL + "/acme/deploy.git", Values: []pullrequest.Value{{File: file, Path: path}}, Base: "main", Branch: branch, Owner: "pipeline shop of log 1", Provider: provider.Gitea, TokenFile: "token",
	}
	g.again()
	return g
}

// start begins the server, with a user who has a token.
func (g *gitea) start() {
	g.Helper()
	home := g.TempDir()
	free := must.Get(net.Listen("tcp", "127.0.0.1:0"))(g)
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	g.address = fmt.Sprintf("http://127.0.0.1:%d", port)
	settings := filepath.Join(home, "app.ini")
	me := must.Get(user.Current())(g)
	text := fmt.Sprintf(`RUN_MODE = prod
RUN_USER = %[5]s
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = %[1]s
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %[2]d
ROOT_URL = %[3]s/
DISABLE_SSH = true
OFFLINE_MODE = true
STATIC_ROOT_PATH = %[4]s
[database]
DB_TYPE = sqlite3
[security]
INSTALL_LOCK = true
[log]
LEVEL = Error
[indexer]
ISSUE_INDEXER_TYPE = db
`, home, port, g.address, *giteaSources, me.Username)
	require.NoError(g, os.WriteFile(settings, []byte(text), 0o600))
	command := func(args ...string) *exec.Cmd {
		c := exec.Command(*giteaProgram, append(args, "--config", settings)...)
		c.Env = append(os.Environ(), "HOME="+home, "GITEA_WORK_DIR="+home)
		return c
	}
	var said bytes.Buffer
	server := command("web")
	server.Stdout, server.Stderr = &said, &said
	require.NoError(g, server.Start())
	g.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
		if g.Failed() {
			g.Log(said.String())
		}
	})
	waittest.Until(g, func() bool {
		answer, err := http.Get(g.address + "/api/v1/version")
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil
	}, "Gitea serves")
	for _, args := range [][]string{
		{"admin", "user", "create", "--username", "acme", "--password", "s3cret-pass", "--email", "acme@localhost.example", "--must-change-password=false"},
		{"admin", "user", "generate-access-token", "--username", "acme", "--scopes", "write:repository,write:user", "--raw"},
	} {
		out, err := command(args...).Output()
		if err != nil {
			g.Fatalf("%q: %v\n%s", args, err, out)
		}
		lines := strings.Fields(string(out))
		g.token = lines[len(lines)-1]
	}
}

// proxied begins the proxy.
func (g *gitea) proxied() {
	to := must.Get(url.Parse(g.address))(g)
	through := httputil.NewSingleHostReverseProxy(to)
	through.ModifyResponse = func(r *http.Response) error {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		g.mu.Lock()
		defer g.mu.Unlock()
		if r.Request.Method != http.MethodGet && !strings.HasSuffix(r.Request.URL.Path, "/git-upload-pack") {
			g.changes = append(g.changes, r.Request.Method+" "+r.Request.URL.Path)
		}
		if strings.HasPrefix(r.Request.URL.Path, "/api/") {
			e := exchange{Request: r.Request.Method + " " + r.Request.URL.RequestURI(), Status: r.StatusCode, Header: map[string]string{}}
			for _, name := range []string{"ETag", "Last-Modified", "Link", "X-Total-Count"} {
				if text := r.Header.Get(name); text != "" {
					e.Header[name] = text
				}
			}
			if json.Valid(body) {
				e.Body = body
			}
			g.said = append(g.said, e)
		}
		return err
	}
	g.proxy = httptest.NewServer(through)
	g.Cleanup(g.proxy.Close)
}

// again is another process.
func (g *gitea) again() {
	g.client = pullrequest.New(pullrequest.Options{Workspace: g.workspace, Getenv: func(string) string { return "" }, Now: time.Now})
}

// api is what a person does. What Gitea cannot do yet it is asked again, for it looks by itself later
// whether something can be merged.
func (g *gitea) api(method, path string, body, answer any) {
	g.Helper()
	var status int
	var text []byte
	waittest.Until(g, func() bool {
		status, text = g.asks(method, path, body)
		return status != http.StatusMethodNotAllowed
	}, "Gitea can do this")
	require.Less(g, status, 300, "%s %s: %s", method, path, text)
	if answer != nil {
		require.NoError(g, json.Unmarshal(text, answer), "%s %s: %s", method, path, text)
	}
}

func (g *gitea) asks(method, path string, body any) (status int, text []byte) {
	g.Helper()
	data := must.Get(json.Marshal(body))(g)
	request := must.Get(http.NewRequest(method, g.address+"/api/v1"+path, bytes.NewReader(data)))(g)
	request.Header.Set("Authorization", "token "+g.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(g, err)
	defer func() { _ = response.Body.Close() }()
	text = must.Get(io.ReadAll(response.Body))(g)
	return response.StatusCode, text
}

// wants proposes a revision, and wants it to come to something, with a pull request of a number, 0 for
// any, and so many requests that change anything at most.
func (g *gitea) wants(revision string, status pullrequest.Status, number, changes int) {
	g.Helper()
	g.mu.Lock()
	g.changes = nil
	g.mu.Unlock()
	o, err := g.client.Propose(g.Context(), g.place, wanted(revision), may)
	if err != nil || o.Status != status || number > 0 && o.Number != number {
		g.Fatalf("revision %s: %+v, %v; %s of pull request %d is wanted; changed by %q", revision, o, err, status, number, g.changes)
	}
	if len(g.changes) > changes {
		g.Errorf("revision %s: %d requests change something, %d are wanted: %q", revision, len(g.changes), changes, g.changes)
	}
}

// write writes, of each request, the answer that says most.
func (g *gitea) write(name string) {
	g.Helper()
	most := map[string]exchange{}
	for _, e := range g.said {
		if known, is := most[e.Request]; !is || len(e.Body) > len(known.Body) {
			most[e.Request] = e
		}
	}
	var lines [][]byte
	for _, request := range slices.Sorted(maps.Keys(most)) {
		line := must.Get(json.Marshal(most[request]))(g)
		lines = append(lines, line)
	}
	text := "[\n" + string(bytes.Join(lines, []byte(",\n"))) + "\n]\n"
	text = strings.NewReplacer(g.address, "http://gitea.example", g.proxy.URL, "http://gitea.example").Replace(text)
	require.NoError(g, errors.Join(os.MkdirAll(filepath.Dir(name), 0o750), os.WriteFile(name, []byte(text), 0o600)))
}

// open are the titles of the pull requests that are open, and what the branch has.
func (g *gitea) open() (titles []string, text string) {
	g.Helper()
	var pulls []struct{ Title string }
	g.api(http.MethodGet, "/repos/acme/deploy/pulls?state=open", nil, &pulls)
	for _, p := range pulls {
		titles = append(titles, p.Title)
	}
	var content struct{ Content string }
	if len(titles) > 0 {
		g.api(http.MethodGet, "/repos/acme/deploy/contents/"+file+"?ref="+url.QueryEscape(branch), nil, &content)
	}
	decoded := must.Get(base64.StdEncoding.DecodeString(content.Content))(g)
	return titles, string(decoded)
}

func (g *gitea) isOpen(revision string) {
	g.Helper()
	titles, text := g.open()
	if len(titles) != 1 || titles[0] != "Promote shop/prod to revision "+revision || text != after(revision) {
		g.Errorf("open are %q, and the branch has\n%s", titles, text)
	}
}

func TestARealGiteaHasOnePullRequestForAStage(t *testing.T) {
	g := newGitea(t)
	g.wants("2", pullrequest.Proposed, 1, 2) // a branch, and a pull request
	g.isOpen("2")
	g.wants("2", pullrequest.Proposed, 1, 0)
	g.again()
	g.wants("2", pullrequest.Proposed, 1, 0)
	g.wants("3", pullrequest.Proposed, 1, 2) // the same two are changed
	g.isOpen("3")

	g.api(http.MethodPatch, "/repos/acme/deploy/pulls/1", map[string]any{"body": "mine"}, nil)
	g.again()
	g.wants("3", pullrequest.Proposed, 1, 0) // it is known by its commits
	g.api(http.MethodPost, "/repos/acme/deploy/pulls/1/merge", map[string]any{"Do": "merge"}, nil)
	g.wants("3", pullrequest.Taken, 0, 0) // for a moment what is merged has no commits, and so is not known

	g.wants("4", pullrequest.Proposed, 2, 2)
	g.api(http.MethodPatch, "/repos/acme/deploy/pulls/2", map[string]any{"state": "closed"}, nil)
	g.again()
	g.wants("4", pullrequest.Declined, 2, 0)
	g.api(http.MethodDelete, "/repos/acme/deploy/branches/"+url.PathEscape(branch), nil, nil)
	g.wants("4", pullrequest.Declined, 2, 0) // also where its branch is gone
	g.wants("5", pullrequest.Proposed, 3, 2)
	g.isOpen("5")
	require.NoError(t, g.client.Withdraw(t.Context(), g.place, may))
	titles, _ := g.open()
	require.Empty(t, titles)
	var branches []struct{ Name string }
	g.api(http.MethodGet, "/repos/acme/deploy/branches", nil, &branches)
	require.Len(t, branches, 1)
	g.wants("5", pullrequest.Proposed, 4, 2) // that was nobody who declined it
	if *record {
		g.write("provider/testdata/gitea.json")
	}

	require.NoError(t, os.WriteFile(filepath.Join(g.workspace, "token"), []byte("wrong"), 0o600))
	_, err := g.client.Propose(t.Context(), g.place, wanted("6"), may)
	require.ErrorContains(t, err, "token")
}

// The protection of a branch says why it refuses a push.
func TestARealGiteaSaysWhyItRefuses(t *testing.T) {
	g := newGitea(t)
	g.api(http.MethodPost, "/repos/acme/deploy/branch_protections", map[string]any{"rule_name": "deployster/**", "enable_push": false}, nil)
	_, err := g.client.Propose(t.Context(), g.place, wanted("2"), may)
	require.ErrorContains(t, err, "the server refused the push (pre-receive hook declined): ")
	require.ErrorContains(t, err, "Not allowed to push to protected branch "+branch)
}
