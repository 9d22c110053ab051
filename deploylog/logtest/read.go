package logtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
)

func testRead(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	history := []deploylog.Event{
		event("d1", "pipeline/web", "pipeline-started"),
		event("d1", "stage/web/beta", "stage-started"),
		event("d2", "stage/web", "stage-started"),
		event("d1", "stage/web/beta", "stage-failed"),
		event("d2", "stage/webx", "stage-failed"),
		event("d1", "stage/WEB/beta", "stage-started"),
	}
	for i := range history {
		history[i].CreatedAt = at(i)
	}
	history = mustAppend(t, l, history...)
	for _, c := range []struct {
		name   string
		filter deploylog.Filter
		want   []int64
	}{
		{"everything", deploylog.Filter{}, []int64{1, 2, 3, 4, 5, 6}},
		{"after an event", deploylog.Filter{After: 4}, []int64{5, 6}},
		{"after the end", deploylog.Filter{After: 99}, nil},
		{"until an event", deploylog.Filter{Until: 2}, []int64{1, 2}},
		{"until past the end", deploylog.Filter{Until: 99}, []int64{1, 2, 3, 4, 5, 6}},
		{"a range", deploylog.Filter{After: 2, Until: 4}, []int64{3, 4}},
		{"an empty range", deploylog.Filter{After: 4, Until: 2}, nil},
		{"one deployment", deploylog.Filter{Deployment: "d2"}, []int64{3, 5}},
		{"an unknown deployment", deploylog.Filter{Deployment: "d"}, nil},
		{"one target", deploylog.Filter{Target: "stage/web"}, []int64{3}},
		{"below a target", deploylog.Filter{Target: "stage/web/"}, []int64{2, 4}},
		{"a kind", deploylog.Filter{Target: "stage/"}, []int64{2, 3, 4, 5, 6}},
		{"one name", deploylog.Filter{Name: "stage-failed"}, []int64{4, 5}},
		{"since a time", deploylog.Filter{Since: at(4)}, []int64{5, 6}},
		{"the newest", deploylog.Filter{Last: 2}, []int64{5, 6}},
		{"more than there are", deploylog.Filter{Last: 99}, []int64{1, 2, 3, 4, 5, 6}},
		{"the newest of a selection", deploylog.Filter{Target: "stage/web/", Last: 1}, []int64{4}},
		{"the newest of a range", deploylog.Filter{Until: 4, Last: 2}, []int64{3, 4}},
		{"the newest of none", deploylog.Filter{Name: "none", Last: 2}, nil},
		{"all at once", deploylog.Filter{After: 1, Until: 5, Deployment: "d1", Target: "stage/web/", Name: "stage-failed", Since: at(1), Last: 3}, []int64{4}},
		{"quotes are text", deploylog.Filter{Target: `stage/web' OR '1'='1`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want []deploylog.Event
			for _, seq := range c.want {
				want = append(want, history[seq-1])
			}
			if d := diff(mustRead(t, l, c.filter), want); d != "" {
				t.Error(d)
			}
		})
	}

	t.Run("a long log", func(t *testing.T) { testLongRead(t, fresh) })

	t.Run("ends with the context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := collect(ctx, l, deploylog.Filter{}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	})

	t.Run("ends when the reader has enough", func(t *testing.T) {
		for _, err := range l.Read(t.Context(), deploylog.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		mustAppend(t, l, event("d3", "stage/web", "stage-started")) // nothing is held
	})

	t.Run("a reader may append", func(t *testing.T) {
		n := 0
		for e, err := range l.Read(t.Context(), deploylog.Filter{Deployment: "d1"}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			mustAppend(t, l, event("d1", "host/a", fmt.Sprintf("read-%d", e.Seq)))
		}
		if n != 4 {
			t.Errorf("read %d events, want the 4 there were at first", n)
		}
	})
}

// testLongRead goes over all boundaries of pages, with selections that hit
// much and little, and events both small and large.
func testLongRead(t *testing.T, fresh func(testing.TB) Store) {
	const total = 9000
	l := fresh(t)()
	events := make([]deploylog.Event, total)
	for i := range events {
		e := event(fmt.Sprintf("d%d", i/100), deploylog.Target(fmt.Sprintf("host/h%d", i%3)), "host-deployed")
		e.Attempt = i + 1
		if i%500 == 250 {
			e.Target = "host/rare"
			e.Data = json.RawMessage(`"` + strings.Repeat("x", deploylog.MaxData/2) + `"`)
		}
		events[i] = e
	}
	o := oracle(mustAppend(t, l, events...))
	for _, f := range []deploylog.Filter{
		{}, {Target: "host/rare"}, {Target: "host/h1"}, {Target: "host/h"}, {Target: "host/"}, {Deployment: "d42"}, {Deployment: "d42", After: 4250},
		{Last: 5000}, {Target: "host/rare", Last: 3}, {After: 4095, Until: 8193}, {Name: "none"},
	} {
		if d := diff(mustRead(t, l, f), o.read(f)); d != "" {
			t.Errorf("%+v: %.400s", f, d)
		}
	}
}

func testQueries(t *testing.T, fresh func(testing.TB) Store) {
	const stage, host = deploylog.Target("stage/web/beta"), deploylog.Target("host/a")

	t.Run("nothing has happened", func(t *testing.T) {
		l := fresh(t)()
		if e, ok, err := l.Latest(t.Context(), stage, deploylog.Succeeded); ok || err != nil {
			t.Errorf("latest: %+v, %v, %v", e, ok, err)
		}
		if open, err := l.InProgress(t.Context(), stage); len(open) != 0 || err != nil {
			t.Errorf("in progress: %v, %v", open, err)
		}
	})

	t.Run("the order is that of registration", func(t *testing.T) {
		l := fresh(t)()
		// The revision v9 registers before v10, and finishes after it.
		mustAppend(t, l, event("v9", "pipeline/web", "pipeline-started"), event("v10", "pipeline/web", "pipeline-started"))
		mustAppend(t, l, event("v10", stage, stage.Succeeded()))
		mustAppend(t, l, event("v9", stage, stage.Succeeded()))
		latest(t, l, stage, deploylog.Succeeded, "v10")
	})

	t.Run("each outcome has its own latest", func(t *testing.T) {
		l := fresh(t)()
		mustAppend(t, l, event("v1", stage, stage.Succeeded()), event("v2", stage, stage.Failed()), event("v3", stage, stage.Started()))
		latest(t, l, stage, deploylog.Succeeded, "v1")
		latest(t, l, stage, deploylog.Failed, "v2")
	})

	t.Run("each granularity has its own markers", func(t *testing.T) {
		l := fresh(t)()
		mustAppend(t, l,
			event("v1", stage, stage.Succeeded()),
			event("v2", host, stage.Succeeded()), // a host does not finish stages
			event("v2", stage, "stage-tested"),
			event("v2", "stage/web", stage.Succeeded()),
		)
		latest(t, l, stage, deploylog.Succeeded, "v1")
	})

	t.Run("the last attempt counts", func(t *testing.T) {
		l := fresh(t)()
		again := event("v1", stage, stage.Failed())
		again.Attempt = 2
		mustAppend(t, l, event("v1", stage, stage.Failed()), again)
		if e, _, err := l.Latest(t.Context(), stage, deploylog.Failed); err != nil || e.Attempt != 2 {
			t.Errorf("latest is attempt %d, %v; want 2", e.Attempt, err)
		}
	})

	t.Run("an unknown outcome is refused", func(t *testing.T) {
		if _, _, err := fresh(t)().Latest(t.Context(), stage, "finished"); err == nil {
			t.Error("no error")
		}
	})

	attempt := func(n int, deployment, name string) deploylog.Event {
		e := event(deployment, stage, name)
		e.Attempt = n
		return e
	}
	t.Run("an append may end what another began", func(t *testing.T) {
		l := fresh(t)()
		mustAppend(t, l, attempt(2, "v1", stage.Started()))
		mustAppend(t, l, attempt(1, "v1", stage.Started()), attempt(2, "v1", stage.Failed()))
		if open, err := l.InProgress(t.Context(), stage); len(open) != 0 || err != nil {
			t.Errorf("in progress: %v, %v", names(open), err)
		}
	})

	l := fresh(t)()
	for n, c := range []struct {
		name    string
		history []deploylog.Event
		want    []string // deployment and attempt
	}{
		{"what was started is in progress", []deploylog.Event{attempt(1, "v1", stage.Started())}, []string{"v1 1"}},
		{"until it succeeds", []deploylog.Event{attempt(1, "v1", stage.Started()), attempt(1, "v1", stage.Succeeded())}, nil},
		{"or fails", []deploylog.Event{attempt(1, "v1", stage.Started()), attempt(1, "v1", stage.Failed())}, nil},
		{"and not in another deployment", []deploylog.Event{attempt(1, "v1", stage.Started()), attempt(1, "v2", stage.Succeeded())}, []string{"v1 1"}},
		{"and not by another step", []deploylog.Event{attempt(1, "v1", stage.Started()), attempt(1, "v1", "stage-tested")}, []string{"v1 1"}},
		{"a second attempt", []deploylog.Event{attempt(1, "v1", stage.Started()), attempt(1, "v1", stage.Failed()), attempt(2, "v1", stage.Started())}, []string{"v1 2"}},
		{"a later attempt ends earlier ones", []deploylog.Event{attempt(1, "v1", stage.Started()), attempt(2, "v1", stage.Started()), attempt(2, "v1", stage.Succeeded())}, nil},
		{"an earlier one no later ones", []deploylog.Event{attempt(2, "v1", stage.Started()), attempt(1, "v1", stage.Succeeded())}, []string{"v1 2"}},
		{"the end may be recorded first", []deploylog.Event{attempt(1, "v1", stage.Failed()), attempt(1, "v1", stage.Started())}, nil},
		{"in order of registration", []deploylog.Event{event("v9", "pipeline/web", "pipeline-started"), attempt(1, "v10", stage.Started()), attempt(1, "v9", stage.Started())}, []string{"v9 1", "v10 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := stage + deploylog.Target(fmt.Sprint("-", n)) // which no other case has, as its deployments
			for _, e := range c.history {
				e.Deployment += fmt.Sprint("-", n)
				if e.Target == stage {
					e.Target = own
				}
				mustAppend(t, l, e)
			}
			open, err := l.InProgress(t.Context(), own)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range open {
				got = append(got, fmt.Sprintf("%s %d", strings.TrimSuffix(e.Deployment, fmt.Sprint("-", n)), e.Attempt))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("in progress %q, want %q", got, c.want)
			}
		})
	}
}

func latest(t *testing.T, l deploylog.Log, target deploylog.Target, o deploylog.Outcome, deployment string) {
	t.Helper()
	e, ok, err := l.Latest(t.Context(), target, o)
	if err != nil || !ok || e.Deployment != deployment || e.Revision != "r-"+deployment || e.Target != target {
		t.Errorf("latest %s: %+v, %v, %v; want that of %s", o, e, ok, err, deployment)
	}
}
