package pages_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/environment"
	envdefinition "github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/metrics"
	"github.com/deployster-go/deployster/internal/notification"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/pages"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

var hours = flag.Int("hours", 14, "how many hours of traffic are compared with two")

// fleet are hosts on which every task becomes healthy at once.
type fleet struct{}

func (fleet) Start(context.Context, tasks.Task) (tasks.ProbeResult, error) { return well, nil }
func (fleet) Observe(context.Context, tasks.Task) tasks.ProbeResult        { return well }
func (fleet) Check(context.Context, tasks.Task) error                      { return nil }
func (fleet) Terminate(context.Context, tasks.Task) error                  { return nil }
func (fleet) Verify(context.Context, environment.Verification) error       { return nil }
func (fleet) Things(t tasks.Task) []tasks.Thing {
	return []tasks.Thing{{Key: t.Environment, Name: t.Environment}}
}
func (fleet) Watch(ctx context.Context, _ string, _ func()) { <-ctx.Done() }
func (fleet) Version() int                                  { return 1 }
func (fleet) Identity() string                              { return "" }
func (fleet) Selected(stage string) ([]string, error)       { return []string{stage + "1", stage + "2"}, nil }
func (fleet) Known(string) bool                             { return true }
func (fleet) Attribute(string, string) string               { return "" }
func (fleet) Slots(string) int                              { return 1 }
func (fleet) Notice(string)                                 {}

var well = tasks.ProbeResult{Health: tasks.Healthy}

// observer counts what is recorded.
type observer struct {
	fleet
	*metrics.Metrics
}

// day is a server that people use, in a time of its own: all that a process of it has but the
// connections, which would hold up that time.
type day struct {
	testing.TB
	log          deploylog.Log
	tokens       *identity.Tokens
	sessions     *pages.Sessions
	api          *server.Server
	pages        *pages.Pages
	metrics      *metrics.Metrics
	notifier     *notification.Notifier
	controller   *promotions.Controller
	environments *environments.Environments
	keeper       *environments.Controller
	handler      http.Handler

	end     context.CancelFunc
	running sync.WaitGroup
	ids     int
	version int
}

func beginDay(t testing.TB) *day {
	store := logtest.NewMemory()
	log := store.Open()
	d := &day{TB: t, log: log, tokens: identity.NewTokens(log, time.Now), metrics: metrics.New(log, "test", time.Now)}
	quiet := slog.New(slog.DiscardHandler)
	authenticate := identity.Authenticator{Tokens: d.tokens}
	d.sessions = pages.NewSessions(time.Now, false, authenticate.Identify)
	kept := objects.In(t.TempDir(), nil)
	d.api = server.New(server.Options{Log: log, Objects: kept, Now: time.Now, NewID: d.id, Version: "test", Logger: quiet, Identify: d.sessions.Identify})
	var err error
	d.pages, err = pages.New(pages.Options{Log: log, Hosts: noHosts{}, Workers: twoWorkers, Objects: kept, Sessions: d.sessions, API: d.api, Now: time.Now, Version: "test", Logger: quiet})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/v1/", d.api)
	mux.Handle("/", d.pages)
	d.handler = d.metrics.Measure(mux)
	d.environments = environments.New(log, time.Now)
	all := promotions.New(log, time.Now)
	pipeline := &definition.Definition{Name: "shop", Promotion: definition.Promotion{Policy: definition.Single, Variable: "version", RetryAfter: definition.Duration(10 * time.Second)}}
	for _, stage := range []string{"dev", "staging", "prod"} {
		d.must(d.environments.Command(t.Context(), stage, environment.Create{Definition: runs(stage, 0)}))
		pipeline.Stages = append(pipeline.Stages, definition.Stage{Name: stage, Environment: stage})
	}
	d.must(all.Change(t.Context(), "shop", true, func(s *promotion.State) ([]deploylog.Event, error) {
		return s.Propose(promotion.Define{Definition: pipeline, ID: "define"}, promotion.Observed{}, time.Now())
	}))
	ctx, end := context.WithCancel(context.Background())
	d.end = end
	// Whoever gets messages is away half of each hour.
	d.notifier = &notification.Notifier{Log: log, Rules: []notification.Rule{{Name: "chat", On: []notification.Kind{notification.Finished, notification.Held}}}, Logger: quiet,
		Approvals: func(deploylog.Target) (bool, error) { return false, nil },
		Send: func(context.Context, notification.Rule, notification.Message) error {
			if time.Now().Minute() < 30 {
				return errors.New("connection refused")
			}
			return nil
		}}
	seen := observer{Metrics: d.metrics}
	scope := reconcile.Only()
	d.keeper = environments.NewController(environments.Options{Options: reconcile.Options{Log: log, Scope: scope, Parallelism: 4, Now: time.Now}, Tasks: fleet{}, Inventory: fleet{}, Observer: seen})
	d.controller = promotions.NewController(promotions.Options{
		Options: reconcile.Options{Log: log, Parallelism: 4, Now: time.Now}, Observer: seen,
		Selected: fleet{}.Selected, Identity: fleet{}.Identity, Things: fleet{}.Things, Verify: fleet{}.Verify, Control: scope.Add,
	})
	for _, run := range []func(context.Context) error{d.notifier.Run, d.keeper.Run, d.controller.Run} {
		d.running.Go(func() {
			err := run(ctx)
			assert.True(t, err == nil || ctx.Err() != nil, "%v", err)
		})
	}
	return d
}

func runs(stage string, version int) *envdefinition.Definition {
	return &envdefinition.Definition{
		Name: stage, Type: envdefinition.Daemon, InstanceGroup: envdefinition.InstanceGroup{Query: stage},
		Task: envdefinition.TaskSpec{Manifest: "shop.yaml", Vars: map[string]any{"version": fmt.Sprint(version)}},
		Deployment: envdefinition.Configuration{
			Method: envdefinition.Replace, MinHealthyPercent: 50, MaxOver: 1, Drift: envdefinition.RepairDrift,
			HealthyDeadline: envdefinition.Duration(5 * time.Minute), ProgressDeadline: envdefinition.Duration(10 * time.Minute),
		},
	}
}

func (d *day) id() string {
	d.ids++
	return fmt.Sprint("id", d.ids)
}

func (d *day) must(_ []deploylog.Event, err error) { require.NoError(d, err) }

func (d *day) ask(code int, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	d.handler.ServeHTTP(answer, r)
	assert.Equal(d, code, answer.Code, "%s %s answers %d, want %d: %s", method, path, answer.Code, code, answer.Body)
	return answer
}

// visit is what somebody does who comes with a token that expires soon: they look at pages,
// follow the log for a while, command something, and send that again.
func (d *day) visit(n int) {
	secret, _, err := d.tokens.Create(context.Background(), identity.New{Name: fmt.Sprint("visitor", n), ID: d.id(), Grant: identity.Grant{Role: identity.Admin}, Expires: time.Now().Add(20 * time.Minute), By: "ada"})
	require.NoError(d, err)
	signed := d.ask(http.StatusSeeOther, http.MethodPost, "/sign-in", url.Values{"token": {secret}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	cookie, _, _ := strings.Cut(signed.Header().Get("Set-Cookie"), ";")
	for _, path := range []string{"/", "/environments/prod", "/pipelines/shop", "/log", "/log?at=5", "/pipelines/shop?at=5", "/v1/log", "/v1/events?last=10"} {
		d.ask(http.StatusOK, http.MethodGet, path, "", "Cookie", cookie)
	}
	ctx, leave := context.WithTimeout(context.Background(), time.Duration(1+n%7)*5*time.Minute) // some longer than the token is valid
	d.running.Go(func() {
		defer leave()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/events?after=1", http.NoBody)
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Cookie", cookie)
		d.handler.ServeHTTP(&taker{header: http.Header{}}, r)
	})
	command := []string{"stop-the-line", "resume"}[n%2]
	for range 2 {
		d.ask(http.StatusOK, http.MethodPost, "/v1/promotions/shop/commands/"+command, `{}`, "Authorization", "Bearer "+secret, "Idempotency-Key", fmt.Sprint("key", n), "Content-Type", "application/json")
	}
	d.ask(http.StatusUnauthorized, http.MethodGet, "/v1/log", "", "Authorization", "Bearer dpl_"+fmt.Sprint("nobody", n))
}

// taker takes an answer and keeps nothing of it.
type taker struct{ header http.Header }

func (t *taker) Header() http.Header         { return t.header }
func (t *taker) Write(p []byte) (int, error) { return len(p), nil }
func (t *taker) WriteHeader(int)             {}
func (t *taker) Flush()                      {}

// deploys has a new version begin to go through the stages.
func (d *day) deploys() {
	d.version++
	d.must(d.environments.Command(context.Background(), "dev", environment.Update{Base: d.version, Definition: runs("dev", d.version)}))
	hosts, _ := fleet{}.Selected("dev")
	d.must(d.environments.Command(context.Background(), "dev", environment.Deploy{Revision: d.version + 1, Hosts: hosts, By: "ada"}))
}

// visits is how often somebody comes.
const visits = 10 * time.Minute

// traffic goes on for so many hours.
func (d *day) traffic(hours int) {
	for n := range hours * int(time.Hour/visits) {
		if n%2 == 0 {
			d.deploys()
		}
		d.visit(n)
		<-time.After(visits)
	}
}

func live() int64 {
	var stats runtime.MemStats
	for range 2 { // what has a finalizer goes with the second
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// inBubble returns the stacks of the goroutines of this bubble. Others come and go as the runtime
// likes, such as those that run finalizers.
func inBubble() []string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var within []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if first, _, _ := strings.Cut(stack, "\n"); strings.Contains(first, "synctest bubble") {
			within = append(within, stack)
		}
	}
	return within
}

// after is what a server has in its memory at rest after some hours of traffic, beside the log.
type after struct {
	bytes      int64
	events     int64
	goroutines []string       // the stacks of those that belong to it
	lengths    map[string]int // of all maps and lists in it
}

func spend(t *testing.T, hours int) (is after) {
	synctest.Test(t, func(t *testing.T) {
		d := beginDay(t)
		d.traffic(hours)
		<-time.After(time.Hour) // those who follow leave
		synctest.Wait()
		is.goroutines, is.lengths = inBubble(), lengths(d)
		is.bytes = live()
		d.end()
		d.running.Wait()
		happened := map[string]int{}
		for e := range d.log.Read(context.Background(), deploylog.Filter{}) {
			is.events = e.Seq
			happened[e.Name]++
		}
		for _, name := range []string{promotion.RunFinished, promotion.LineStopped, notification.Delivered, notification.Abandoned} {
			if happened[name] < hours/2 {
				t.Errorf("%s happened %d times in %d hours", name, happened[name], hours)
			}
		}
		log := d.log
		*d = day{TB: t}
		is.bytes -= live()
		runtime.KeepAlive(log)
	})
	return is
}

// history is what a server knows for good of what was deployed and who might ask, as the pages
// and lists show it. It grows with the log, and with nothing else.
var history = regexp.MustCompile(`\.States\[\]\.(revisions|deployments|promotions|byID|runs)\b|^\.tokens\.(order|byID)\b|\.Observation\.Begun$`)

// windows are for how long is kept what is kept for a while.
var windows = map[string]time.Duration{".sessions.all": 12 * time.Hour, ".api.requests.known": 24 * time.Hour, ".api.requests.order": 24 * time.Hour}

// A server that is used all day has no more in its memory in the evening than in the morning,
// but for what it knows of what was deployed.
func TestADayOfTrafficLeavesNothingBehind(t *testing.T) {
	began := time.Now()
	few, many := spend(t, 2), spend(t, *hours)
	grown, events := many.bytes-few.bytes, many.events-few.events
	t.Logf("%d hours: %d KiB beside the log of %d events, %d goroutines; 2 hours: %d KiB, %d events, %d goroutines: %d bytes for each event; in %s",
		*hours, many.bytes>>10, many.events, len(many.goroutines), few.bytes>>10, few.events, len(few.goroutines), grown/events, time.Since(began))
	for path, n := range many.lengths {
		most := few.lengths[path] + few.lengths[path]/4 + 8
		if window := windows[path]; window > 0 {
			most = max(most, int(window/visits))
		}
		if n > most && !history.MatchString(path) {
			t.Errorf("%d are there, and %d after 2 hours: %s", n, few.lengths[path], path)
		}
	}
	assert.NotEmpty(t, few.goroutines, "no goroutine is found of a server that runs")
	for path := range windows {
		assert.NotZero(t, many.lengths[path], "nothing is in %s, so nothing is found out of it", path)
	}
	assert.LessOrEqual(t, grown, 1536*events+1<<20, "%d bytes more are kept, for %d events", grown, events)
	if len(many.goroutines) > len(few.goroutines) {
		t.Errorf("%d goroutines are left, and %d after 2 hours:\n%s\nand after 2 hours:\n%s", len(many.goroutines), len(few.goroutines),
			strings.Join(many.goroutines, "\n\n"), strings.Join(few.goroutines, "\n\n"))
	}
}

// lengths are those of all maps and lists that something has, by where these are: those in
// elements of the same map or list are added up. The log is not looked at.
func lengths(of any) map[string]int {
	w := walk{sum: map[string]int{}, seen: map[uintptr]bool{}}
	w.value("", reflect.ValueOf(of))
	return w.sum
}

type walk struct {
	sum  map[string]int
	seen map[uintptr]bool
}

var theLog = reflect.TypeFor[deploylog.Log]()

func (w walk) value(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || v.Type().Implements(theLog) || w.seen[v.Pointer()] {
			return
		}
		w.seen[v.Pointer()] = true
		w.value(path, v.Elem())
	case reflect.Interface:
		if !v.IsNil() && !v.Elem().Type().Implements(theLog) {
			w.value(path, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			w.value(path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Map:
		w.sum[path] += v.Len()
		for each := v.MapRange(); each.Next(); {
			w.value(path+"[]", each.Value())
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			w.sum[path] += v.Len()
		}
		if elem := v.Type().Elem().Kind(); elem < reflect.Array || elem == reflect.String {
			return
		}
		for i := range v.Len() {
			w.value(path+"[]", v.Index(i))
		}
	case reflect.Chan:
		w.sum[path] += v.Len()
	default:
	}
}
