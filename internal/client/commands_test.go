package client_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/cli"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/proposal"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/server"
)

// reading are the commands that read the log.
var reading = []string{
	"log list", "log list --last 3 --output json", "log list --target pipeline/ --event pipeline-started", "log list --event nonsense", "log list --target pipelin/gateway",
	"log latest pipeline/gateway", "log latest pipeline/gateway --output json", "log latest pipeline/gatewy", "log latest environment/shop/prod",
	"log runs", "log runs --output json", "log export", "log verify --output json",
	"pipeline list", "pipeline list --output json", "pipeline status", "pipeline status gateway --output json", "pipeline status gateway --hosts", "pipeline status gateway --at 100",
	"pipeline status gatewy", "pipeline history gateway", "pipeline history gateway --output json", "pipeline show gateway 3", "pipeline show gateway 3 --output json", "pipeline show gateway nonsense",
	"pipeline explain gateway", "pipeline explain gateway --output json", "pipeline explain stage/gateway/nonsense", "pipeline diff gateway 2 3",
	"env list", "env list --output json", "env status shop/prod", "env status shop/prod --output json", "env status shop/prod --hosts", "env status nonsense", "env history shop/prod", "env history shop/prod --output json",
	"env revisions shop/prod", "env show shop/prod", "env show shop/prod --output json", "env explain shop/prod", "env explain shop/prod --output json", "env diff shop/prod 1 2",
	"build list", "build list --output json", "build status nonsense", "build jobs nonsense", "build explain",
	"explain pipeline/gateway", "explain environment/shop/prod", "explain nonsense/x",
}

// sending are commands that record, or are refused.
var sending = []string{
	"pipeline pause gateway --reason why", "pipeline pause gateway", "pipeline resume gateway", "pipeline pause nonsense", "pipeline pause gateway nonsense",
	"pipeline skip gateway nonsense", "pipeline retry gateway nonsense", "pipeline rollback gateway nonsense", "pipeline approve gateway nonsense 1",
	"pipeline apply -f one.yaml", "pipeline apply -f one.yaml --output json", "pipeline apply -f changed.yaml", "pipeline apply -f changed.yaml --yes", "pipeline apply -f nonsense.yaml",
	"pipeline delete one", "pipeline delete one --yes --reason old", "pipeline delete one --yes", "pipeline delete nonsense --yes", "pipeline delete gateway --yes",
	"env pause shop/prod --reason why", "env resume shop/prod", "env pause nonsense", "env resume shop/prod",
	"env confirm shop/prod", "env cordon shop/prod web-h1 web-h2 --reason disks", "env cordon shop/prod web-h1 --output json", "env cordon shop/prod wbe-h1", "env drain shop/prod web-h3", "env uncordon shop/prod web-h1 web-h2 web-h3",
	"env deploy shop/prod --revision 2", "env deploy shop/prod --revision 99", "env rollback shop/prod --reason bad", "env restart shop/prod web-h1", "env adopt shop/prod", "env adopt nonsense --from shop/prod",
	"env accept shop/prod 4 --content x", "env decline shop/prod 4", "env clean shop/prod", "env update shop/prod --base 1 --set task.vars.image=x", "env create -f nonsense.yaml", "env delete nonsense",
	"env delete shop/prod", "env delete shop/prod --yes --reason old", "env delete shop/prod --yes", "env deploy shop/prod --revision 2", "env clean shop/prod", "env clean shop/prod --yes", "build cancel nonsense", "build retry nonsense",
}

// recordedAt is when something was recorded: what is done here and there is not done in the same second.
var recordedAt = regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b`)

// hosts are in the environment, and in each stage of the pipeline. A command is asked about as many events as
// there have to be: it reads them all under the race detector.
const hosts = 4

// listed is an inventory of the hosts of the environment.
func listed() string {
	text := "hosts:\n"
	for i := range hosts {
		text += fmt.Sprintf("  - {name: web-h%d, engine: oci, attributes: {stack: prod}}\n", i+1)
	}
	return text
}

// Whoever sends a command to a server reads what who has the log reads.
func sendAlike(t *testing.T, dir, path string) {
	other := filepath.Join(dir, "other", "deployments.db")
	inventory := filepath.Join(dir, "inventory.yaml")
	require.NoError(t, os.WriteFile(inventory, []byte(listed()), 0o600))
	for name, text := range map[string]string{"one.yaml": "{name: ask, approval: {}}", "changed.yaml": "{name: ask, approval: {}}, {name: again, approval: {}}"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("pipeline: one\nstages: ["+text+"]\n"), 0o600))
	}
	url := serveOn(t, large(t, other), objects.In(filepath.Join(dir, "other", "objects"), nil), work.NewHosts(inventory))
	me := ""
	for _, command := range sending {
		here := run(t, append(strings.Fields(command), "--log", path)...)
		there := run(t, append(strings.Fields(command), "--server", url)...)
		if me == "" { // the first command records who runs it
			_, by, _ := strings.Cut(run(t, "log", "list", "--last", "1", "--output", "json", "--log", path), `"by":"`)
			me, _, _ = strings.Cut(by, `"`)
			require.NotEmpty(t, me)
		}
		here = strings.ReplaceAll(here, me, "ada") // the server says who it is
		here, there = recordedAt.ReplaceAllString(here, "WHEN"), recordedAt.ReplaceAllString(there, "WHEN")
		if here != there {
			t.Errorf("%s: here\n%s\nthere\n%s", command, clip(here), clip(there))
		}
	}
	assert.Contains(t, run(t, "log", "list", "--event", "pipeline-paused", "--last", "1", "--server", url), "by ada", "who was authenticated")
}

// A token that is created beside the log authenticates at once at its server, until it is revoked.
func authenticate(t *testing.T, path string, log deploylog.Log) {
	s := listen(t, server.New(server.Options{
		Log: log, Now: time.Now, NewID: newID, Logger: slog.New(slog.DiscardHandler), Identify: identity.Authenticator{Tokens: identity.NewTokens(log, time.Now)}.Identify,
	}))
	here := func(args ...string) string { return run(t, append(args, "--log", path)...) }
	secret, _, _ := strings.Cut(here("token", "create", "ci", "--role", "operator", "--pipeline", "gateway"), "\n")
	require.True(t, strings.HasPrefix(secret, "dpl_"), secret)
	ask := func() string {
		t.Setenv("DEPLOYSTER_TOKEN", secret)
		return run(t, "token", "list", "--server", s.URL)
	}
	assert.Contains(t, ask(), "ci     valid   operator  pipeline gateway")
	for _, wrong := range [][]string{{"ci", "--role", "admin"}, {"other"}, {"other", "--role", "root"}, {"other", "--role", "admin", "--expires", "-1d"}, {"a/b", "--role", "admin"}, {"other", "--role", "admin", "--pipeline", ""}} {
		assert.Contains(t, here(append([]string{"token", "create"}, wrong...)...), "exit status 3", wrong)
	}
	assert.Contains(t, here("token", "revoke", "ci"), "token ci is revoked (event ")
	assert.Contains(t, ask(), "a valid token is needed")
}

func TestCommandsThroughAServer(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("NO_COLOR", "1")
	t.Setenv("DEPLOYSTER_TOKEN", "dpl_any")
	path := filepath.Join(dir, "log", "deployments.db")
	log := large(t, path)
	url := serve(t, log, objects.In(filepath.Join(dir, "log", "objects"), nil))
	t.Run("reading is reading the log", func(t *testing.T) { readAlike(t, path, url) })
	t.Run("sending is recording", func(t *testing.T) { sendAlike(t, dir, path) })
	t.Run("a token authenticates", func(t *testing.T) { authenticate(t, path, log) })
	t.Run("what is done with the log itself is refused", func(t *testing.T) { refuseWork(t, dir, url) })
}

// Whoever asks a server gets, byte for byte, what who has the log gets.
func readAlike(t *testing.T, path, url string) {
	for _, command := range reading {
		here := run(t, append(strings.Fields(command), "--log", path)...)
		there := run(t, append(strings.Fields(command), "--server", url)...)
		there = strings.ReplaceAll(there, url, path) // both say where the log is
		if here != there {
			t.Errorf("%s: here\n%s\nthere\n%s", command, clip(here), clip(there))
		}
		assert.True(t, strings.Contains(here, "exit status") || len(here) >= 2, "%s prints nothing", command)
	}
}

// What does work, or needs the log itself, says so and where to do it.
func refuseWork(t *testing.T, dir, url string) {
	for _, command := range []string{"gc", "log verify --accept-head", "pipeline run --until-idle"} {
		said := run(t, append(strings.Fields(command), "--server", url)...)
		assert.Contains(t, said, "exit status", command)
		assert.Contains(t, said, "without --server", command)
		require.NoFileExists(t, filepath.Join(dir, ".deployster", "deployments.db"), command)
	}
	assert.Contains(t, run(t, "log", "list", "--server", url, "--log", "x.db"), "exclude each other")
}

func clip(text string) string { return text[:min(len(text), 1500)] }

// large is a log of some pipelines and environments, which is made.
func large(t *testing.T, path string) deploylog.Log {
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	log := must.Get(sqlite.Open(t.Context(), path, sqlite.Options{Now: time.Now}))(t)
	t.Cleanup(func() { _ = log.Close() })
	events := querytest.Large(hosts, 13)
	for i := range events {
		events[i].Seq = 0
	}
	for len(events) > 0 {
		n := min(len(events), 500)
		require.NoError(t, must.Fail(log.Append(t.Context(), events[:n]...)))
		events = events[n:]
	}
	return log
}

// run returns what a command prints, on its output and then on its error output, and how it ends.
func run(t *testing.T, args ...string) string {
	in, out, failed := os.Stdin, os.Stdout, os.Stderr
	defer func() { os.Stdin, os.Stdout, os.Stderr = in, out, failed }()
	var err error
	os.Stdin, err = os.Open(os.DevNull)
	require.NoError(t, err)
	defer os.Stdin.Close()
	printed := make([]string, 2)
	for i, to := range []**os.File{&os.Stdout, &os.Stderr} {
		printed[i] = filepath.Join(t.TempDir(), "printed")
		*to = must.Get(os.Create(printed[i]))(t)
		defer (*to).Close()
	}
	text := ""
	code := cli.Main(args)
	for _, name := range printed {
		part := must.Get(os.ReadFile(name))(t)
		text += string(part)
	}
	if code != 0 {
		text += fmt.Sprintf("exit status %d", code)
	}
	return text
}

func TestARunIsFollowedOverConnectionsThatAreCut(t *testing.T) {
	var asked atomic.Int64
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		after := r.URL.Query().Get("after")
		switch asked.Add(1) {
		case 1:
			fmt.Fprint(w, "{\"n\":1,\"event\":{\"type\":\"run-started\"}}\n\n{\"n\":4,\"event\":{\"type\":\"line\",\"text\":\"x\"}}\n{\"n\":5,\"ev")
		case 2:
			fmt.Fprint(w, "{\"n\":", after, "5,\"event\":{\"type\":\"line\"}}\n")
		default:
			fmt.Fprint(w, "{\"n\":", after, "6,\"end\":{\"outcome\":\"succeeded\"}}\n")
			return
		}
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	var got []int64
	end, err := c.FollowRun(t.Context(), "01JZ", func(o proposal.Observed) { got = append(got, o.N) })
	assert.True(t, err == nil && end.Outcome == "succeeded" && slices.Equal(got, []int64{1, 4, 45}), "%v, %+v, %v", got, end, err)
}

func TestAnObjectIsSentAgainWhenTheConnectionIsCut(t *testing.T) {
	var sent atomic.Int64
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		content, err := io.ReadAll(r.Body)
		assert.True(t, err == nil && string(content) == "text", "%q, %v", content, err)
		if sent.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	if _, err := objects.Via(c.Objects()).Keep([]byte("text")); err != nil || sent.Load() != 2 {
		t.Errorf("it was sent %d times: %v", sent.Load(), err)
	}
}

func TestWhatIsNoRunIsNotFollowed(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"refused": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"detail":"you may not do this"}`)
		},
		"gone": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"detail":"no such run"}`)
		},
		"something else": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, strings.Repeat("<html>", 1000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := connect(t, answer).FollowRun(t.Context(), "01JZ", func(o proposal.Observed) { t.Error(o) })
			assert.Error(t, err)
		})
	}
}

// Behind a load balancer each request comes to another server of the log, of which one carries
// out the run and has the plan.
func TestARunIsFoundBehindALoadBalancer(t *testing.T) {
	var asked atomic.Int64
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%3 != 0 {
			w.WriteHeader(map[string]int{http.MethodGet: http.StatusNotFound, http.MethodPost: http.StatusGone}[r.Method])
			fmt.Fprint(w, `{"detail":"another one has it"}`)
			return
		}
		switch r.URL.Path {
		case "/v1/runs/01JZ/events":
			fmt.Fprint(w, "{\"n\":1,\"end\":{\"outcome\":\"succeeded\"}}\n")
		case "/v1/runs":
			fmt.Fprint(w, `{"run":"01K0"}`)
		default:
			fmt.Fprint(w, `{}`)
		}
	})
	end := must.Get(c.FollowRun(t.Context(), "01JZ", func(proposal.Observed) {}))(t)
	assert.Equal(t, "succeeded", end.Outcome)
	plan := must.Get(c.Plan(t.Context(), "01JZ"))(t)
	assert.Equal(t, "{}", string(plan))
	begun, err := c.BeginRun(t.Context(), proposal.Run{Plan: "01JZ"}) // it is bound to the plan
	require.NoError(t, err)
	assert.Equal(t, "01K0", begun.Run)
	assert.NoError(t, c.StopRun(t.Context(), "01JZ"))
}

func TestALoadBalancerThatReachesNoServerIsAskedAgain(t *testing.T) {
	var asked atomic.Int64
	answers := map[string]string{
		"GET /v1/log": `{"id":"01LOG"}`, "PUT /v1/objects/00": "", "POST /v1/salt": `{"salt":"00"}`, "POST /v1/runs": `{"run":"01K0"}`, "POST /v1/runs/01K0/stop": `{}`,
		"POST /v1/plans": `{"run":"01K1"}`, "POST /v1/workers/w/look": `{"platforms":["linux/amd64"]}`, "POST /v1/workers/w/images": `{"id":"sha256:00"}`,
		"GET /v1/runs/01K0/events": "{\"n\":1,\"end\":{\"outcome\":\"succeeded\"}}\n",
	}
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%2 == 1 {
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, "<html>502 Bad Gateway</html>")
			return
		}
		fmt.Fprint(w, answers[r.Method+" "+r.URL.Path])
	})
	log := must.Get(c.Open(t.Context()))(t)
	assert.Equal(t, "01LOG", log.ID())
	assert.NoError(t, c.Objects().Keep("00", []byte("text")))
	require.NoError(t, must.Fail(c.Objects().Salt()))
	begun := must.Get(c.BeginRun(t.Context(), proposal.Run{}))(t)
	assert.Equal(t, "01K0", begun.Run)
	end := must.Get(c.FollowRun(t.Context(), "01K0", func(proposal.Observed) {}))(t)
	assert.Equal(t, "succeeded", end.Outcome)
	assert.NoError(t, c.StopRun(t.Context(), "01K0"))
	begun = must.Get(c.BeginPlan(t.Context(), proposal.Run{}))(t)
	assert.Equal(t, "01K1", begun.Run)
	assert.Len(t, must.Get(c.Look(t.Context(), "w"))(t), 1)
	image := must.Get(c.Image(t.Context(), "w", "base", engine.PullMissing))(t)
	assert.Equal(t, "sha256:00", image.ID)
	assert.ErrorContains(t, c.SendSigned(t.Context(), "/signed", nil, nil, nil), // which may be sent once
		"answers 502 Bad Gateway: what is before it reaches no server of Deployster at present: try again when one runs")
	assert.EqualValues(t, 19, asked.Load(), "requests")
}
