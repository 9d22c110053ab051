package logtest

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// oracle is a deployment log as one would explain it: a list, and questions
// answered by going through it.
type oracle []deploylog.Event

type key struct {
	deployment string
	target     deploylog.Target
	name       string
	attempt    int
}

func keyOf(e deploylog.Event) key { return key{e.Deployment, e.Target, e.Name, max(e.Attempt, 1)} }

// admits reports whether none of the events is a repetition.
func (o oracle) admits(events []deploylog.Event) bool {
	seen := map[key]bool{}
	for _, e := range o {
		seen[keyOf(e)] = true
	}
	for _, e := range events {
		if seen[keyOf(e)] {
			return false
		}
		seen[keyOf(e)] = true
	}
	return true
}

func (o oracle) read(f deploylog.Filter) []deploylog.Event {
	var selected []deploylog.Event
	for _, e := range o {
		if e.Seq > f.After && (f.Until == 0 || e.Seq <= f.Until) &&
			(f.Deployment == "" || e.Deployment == f.Deployment) &&
			(f.Name == "" || e.Name == f.Name) &&
			(f.Target == "" || e.Target == f.Target || strings.HasSuffix(string(f.Target), "/") && strings.HasPrefix(string(e.Target), string(f.Target))) &&
			!e.CreatedAt.Before(f.Since) {
			selected = append(selected, e)
		}
	}
	if f.Last > 0 && len(selected) > f.Last {
		selected = selected[len(selected)-f.Last:]
	}
	return selected
}

// registered is the position of the deployment's first event.
func (o oracle) registered(deployment string) int64 {
	for _, e := range o {
		if e.Deployment == deployment {
			return e.Seq
		}
	}
	return 0
}

func (o oracle) latest(t deploylog.Target, name string) (latest deploylog.Event, ok bool) {
	for _, e := range o {
		if e.Target == t && e.Name == name && (!ok || o.registered(e.Deployment) >= o.registered(latest.Deployment)) {
			latest, ok = e, true
		}
	}
	return latest, ok
}

func (o oracle) inProgress(t deploylog.Target) []deploylog.Event {
	var open []deploylog.Event
	for _, s := range o { // by deployment, in the order of their first events
		if o.registered(s.Deployment) != s.Seq {
			continue
		}
		for _, e := range o {
			if e.Deployment == s.Deployment && e.Target == t && e.Name == t.Started() && !o.ended(e) {
				open = append(open, e)
			}
		}
	}
	return open
}

func (o oracle) ended(started deploylog.Event) bool {
	t := started.Target
	for _, e := range o {
		if e.Deployment == started.Deployment && e.Target == t && e.Attempt >= started.Attempt &&
			(e.Name == t.Succeeded() || e.Name == t.Failed()) {
			return true
		}
	}
	return false
}

// Few values, so that repetitions, prefixes and several attempts are common.
// The revisions of later deployments sort before those of earlier ones.
var (
	deployments = rapid.SampledFrom([]string{"d9", "d5", "d1"})
	targets     = rapid.SampledFrom([]deploylog.Target{"stage/web", "stage/web/beta", "stage/webx", "host/a", "host/%", "host-group/a"})
	endings     = rapid.SampledFrom([]string{"-started", "-finished-successfully", "-failed", "-deployed"})
	kinds       = rapid.SampledFrom([]string{"stage", "host"})
)

func anyEvent(t *rapid.T) deploylog.Event {
	target := targets.Draw(t, "target")
	kind := target.Kind()
	if rapid.IntRange(0, 4).Draw(t, "foreign") == 0 {
		kind = kinds.Draw(t, "kind")
	}
	e := event(deployments.Draw(t, "deployment"), target, kind+endings.Draw(t, "ending"))
	e.Attempt = rapid.IntRange(0, 3).Draw(t, "attempt")
	e.CreatedAt = at(rapid.IntRange(0, 9).Draw(t, "time"))
	return e
}

func anyFilter(t *rapid.T) deploylog.Filter {
	f := deploylog.Filter{
		After: rapid.Int64Range(0, 20).Draw(t, "after"),
		Until: rapid.Int64Range(0, 20).Draw(t, "until"),
		Last:  rapid.IntRange(0, 4).Draw(t, "last"),
	}
	if rapid.Bool().Draw(t, "by deployment") {
		f.Deployment = deployments.Draw(t, "deployment")
	}
	if rapid.Bool().Draw(t, "by target") {
		f.Target = rapid.SampledFrom([]deploylog.Target{"stage/", "stage/web/", "stage/web", "host/", "host/%", "host/a", "none/"}).Draw(t, "target")
	}
	if rapid.Bool().Draw(t, "by name") {
		f.Name = kinds.Draw(t, "kind") + endings.Draw(t, "ending")
	}
	if rapid.Bool().Draw(t, "by time") {
		f.Since = at(rapid.IntRange(0, 10).Draw(t, "since"))
	}
	return f
}

// cases has rapid draw as many cases as are worth their time, unless the command line says how many.
func cases(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if was := checks.Value.String(); was == checks.DefValue {
		if err := checks.Value.Set(strconv.Itoa(ringtest.Cases(25, 100))); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = checks.Value.Set(was) })
	}
}

func testOracle(t *testing.T, fresh func(testing.TB) Store) {
	cases(t)
	rapid.Check(t, func(r *rapid.T) {
		store := fresh(t)
		handles := []deploylog.Log{store(), store()}
		defer func() {
			for _, l := range handles {
				if err := l.Close(); err != nil {
					r.Errorf("close: %v", err)
				}
			}
		}()
		var o oracle
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			i := rapid.IntRange(0, 1).Draw(r, "handle")
			if rapid.IntRange(0, 9).Draw(r, "reopen") == 0 {
				if err := handles[i].Close(); err != nil {
					r.Fatalf("close: %v", err)
				}
				handles[i] = store()
			}
			events := make([]deploylog.Event, rapid.IntRange(1, 4).Draw(r, "events"))
			for i := range events {
				events[i] = anyEvent(r)
			}
			appended, err := handles[i].Append(t.Context(), events...)
			if admitted := o.admits(events); admitted != (err == nil) || !admitted && !errors.Is(err, deploylog.ErrDuplicate) {
				r.Fatalf("append of %v: admitted %v, but error %v", names(events), admitted, err)
			}
			o = append(o, appended...)
			for n, e := range o {
				if e.Seq != int64(n+1) {
					r.Fatalf("event %d has seq %d", n+1, e.Seq)
				}
			}
			if problem := o.compare(t, r, handles[1-i]); problem != "" {
				r.Fatalf("%s\nhistory: %v", problem, names(o))
			}
		}
		if v, err := handles[0].Verify(t.Context()); err != nil || v.Events != int64(len(o)) {
			r.Fatalf("verify: %+v, %v; want %d events", v, err, len(o))
		}
	})
}

// compare asks a store and the oracle the same questions.
func (o oracle) compare(t *testing.T, r *rapid.T, l deploylog.Log) string {
	for _, f := range []deploylog.Filter{{}, anyFilter(r)} {
		got, err := collect(t.Context(), l, f)
		if err != nil {
			return fmt.Sprintf("read %+v: %v", f, err)
		}
		if d := diff(got, o.read(f)); d != "" {
			return fmt.Sprintf("read %+v: %s", f, d)
		}
	}
	target := targets.Draw(r, "asked target")
	for outcome, name := range map[deploylog.Outcome]string{deploylog.Succeeded: target.Succeeded(), deploylog.Failed: target.Failed()} {
		got, ok, err := l.Latest(t.Context(), target, outcome)
		want, exists := o.latest(target, name)
		if err != nil || ok != exists || !equal(got, want) {
			return fmt.Sprintf("latest %s of %s: %+v, %v, %v; want %+v, %v", outcome, target, got, ok, err, want, exists)
		}
	}
	got, err := l.InProgress(t.Context(), target)
	if err != nil {
		return fmt.Sprintf("in progress of %s: %v", target, err)
	}
	if d := diff(got, o.inProgress(target)); d != "" {
		return fmt.Sprintf("in progress of %s: %s", target, d)
	}
	return ""
}
