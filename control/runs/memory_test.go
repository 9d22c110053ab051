package runs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/runner/report"
)

func keeping(resource string, attempt int, keep map[string]any, protect bool) report.Event {
	return report.Event{Kind: report.ResourceKept, Resource: resource, Attempt: attempt, Keep: keep, Protect: protect}
}

// What is kept of resources is what was recorded last of each, whoever recorded it, and of
// what is protected nothing is in the log, nor any document that nothing refers to.
func TestTheMemoryOfTheLogIsThatOfANaiveOne(t *testing.T) { //nolint:gocyclo // the steps of a history, each beside what the model makes of it
	s := newSite(t)
	dir := filepath.Join(t.TempDir(), protected.DirName)
	docs, round := protected.New(dir), 0
	rapid.Check(t, func(rt *rapid.T) {
		naive := map[string]map[string]any{}
		protects := map[string]bool{}
		for range rapid.IntRange(1, 8).Draw(rt, "runs") {
			round++
			place := rapid.SampledFrom([]string{"", "h1"}).Draw(rt, "place")
			run := fmt.Sprintf("r%d", round)
			held, err := runs.Begin(t.Context(), runs.Options{
				Log: s.log, Engine: s.engine, ID: run, Target: "run/web.yaml", Revision: run, Place: place, Protected: docs, Notice: func(string) {},
			})
			if err != nil {
				rt.Fatal(err)
			}
			attempts := map[string]int{}
			for range rapid.IntRange(0, 4).Draw(rt, "answers") {
				name := rapid.SampledFrom([]string{"a", "b[x]"}).Draw(rt, "resource")
				placed := name
				if place != "" {
					placed += "@" + place
				}
				var keep map[string]any
				if rapid.Bool().Draw(rt, "something") {
					keep = map[string]any{"id": json.Number(fmt.Sprint(rapid.Int64().Draw(rt, "id"))), "s": "s3cr3t"}
				}
				attempts[name]++
				protect := rapid.Bool().Draw(rt, "secret")
				if err := held.Record(t.Context(), keeping(name, attempts[name], keep, protect)); err != nil {
					rt.Fatal(err)
				}
				naive[placed], protects[placed] = keep, (protect || protects[placed]) && keep != nil
			}
			held.End()
			if rapid.IntRange(0, 9).Draw(rt, "forget") == 0 {
				was, err := runs.Memory{Log: s.log, Protected: docs}.Forget(t.Context(), run+"-forget", "a", nil)
				if err != nil || was.Kept != (len(naive["a"]) > 0) {
					rt.Fatalf("forgetting: %v, %v", was, err)
				}
				naive["a"], protects["a"] = nil, false
			}
			for placed, want := range naive {
				name, at, _ := strings.Cut(placed, "@")
				past, err := runs.Memory{Log: s.log, Protected: docs, Place: at}.Past(t.Context(), name, true)
				if err != nil || len(past.Kept) != len(want) || len(want) > 0 && !reflect.DeepEqual(past.Kept, want) || past.Interrupted {
					rt.Fatalf("%s: %v, %v, want %v", placed, past, err, want)
				}
			}
			documents := 0
			for _, is := range protects {
				if is {
					documents++
				}
			}
			if files, err := os.ReadDir(dir); err != nil && !errors.Is(err, os.ErrNotExist) || len(files) != documents {
				rt.Fatalf("%d documents, want %d", len(files), documents)
			}
		}
		for name := range naive { // of the next case nothing is known
			if _, err := (runs.Memory{Log: s.log, Protected: docs}).Forget(t.Context(), fmt.Sprintf("clear-%d-%s", round, name), name, nil); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// keepingSecret is a site on which a run has kept something secret of "db", and then more, of
// which the type does not say so.
func keepingSecret(t *testing.T) (*site, *protected.Store) {
	t.Helper()
	s := newSite(t)
	docs := protected.New(t.TempDir())
	run, err := runs.Begin(t.Context(), runs.Options{Log: s.log, Engine: s.engine, ID: "r", Target: "run/web.yaml", Protected: docs, Notice: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(run.End)
	marked := keeping("db", 2, map[string]any{"key": "s3cr3t", "more": 1}, false)
	marked.Secrets = [][]string{{"key"}}
	s.record(run, keeping("db", 1, map[string]any{"key": "s3cr3t"}, true), marked)
	return s, docs
}

func TestNothingThatIsProtectedIsInTheLog(t *testing.T) {
	s, docs := keepingSecret(t)
	for e, err := range s.log.Read(t.Context(), deploylog.Filter{}) {
		if err != nil || strings.Contains(string(e.Data), "s3cr3t") || !strings.Contains(string(e.Data), `"protected":{"name":`) {
			t.Errorf("%s, %v", e.Data, err)
		}
	}
	kept, err := runs.LastKept(t.Context(), s.log, "db")
	if err != nil || kept.None() {
		t.Fatal(kept, err)
	}
	memory := runs.Memory{Log: s.log, Protected: docs}
	if past, err := memory.Past(t.Context(), "db", true); err != nil || !reflect.DeepEqual(past.Secrets, [][]string{{"key"}}) {
		t.Errorf("what is secret in it is %q, %v", past.Secrets, err)
	}
	if _, err := memory.Forget(t.Context(), "f", "db", nil); err != nil {
		t.Fatal(err)
	}
	if again, err := memory.Forget(t.Context(), "g", "db", nil); again.Kept || err != nil {
		t.Errorf("nothing was forgotten: %v, %v", again, err)
	}
	if err := docs.Get(*kept.Protected, new(any)); err == nil {
		t.Error("the document is there still")
	}
}

func TestADocumentThatIsGoneIsSaidWithARemedy(t *testing.T) {
	s, _ := keepingSecret(t)
	memory := runs.Memory{Log: s.log, Protected: protected.New(t.TempDir())}
	if _, err := memory.Past(t.Context(), "db", true); err == nil || !strings.Contains(err.Error(), "restore it from a backup, with the log") || !strings.Contains(err.Error(), "deployster state forget db") {
		t.Errorf("got %v", err)
	}
	if past, err := memory.Past(t.Context(), "db", false); err != nil || past.Kept != nil {
		t.Errorf("a type that keeps nothing needs it: %v, %v", past, err)
	}
}

func TestNothingIsForgottenWhileSomebodyWorksOnIt(t *testing.T) {
	s := newSite(t)
	run := s.begin("r")
	defer run.End()
	leave, err := run.Enter(t.Context(), "db", func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	if _, err := (runs.Memory{Log: s.log}).Forget(t.Context(), "f", "db", nil); !errors.Is(err, deploylog.ErrLocked) {
		t.Errorf("got %v", err)
	}
}

func TestAnActionOfWhichTheEndIsNotKnownInterrupted(t *testing.T) {
	begun := report.Event{Kind: report.ActionStarted, Resource: "db", Action: "create"}
	exit := 1
	for name, tc := range map[string]struct {
		events []report.Event // of a run that died
		after  []report.Event // of the next one
		want   bool
	}{
		"nothing was done":    {nil, nil, false},
		"its process died":    {[]report.Event{begun}, nil, true},
		"it ended well":       {[]report.Event{begun, {Kind: report.ActionFinished, Resource: "db", Action: "create"}}, nil, false},
		"it failed":           {[]report.Event{begun, {Kind: report.ActionFailed, Resource: "db", Action: "create", Exit: &exit}}, nil, false},
		"another was begun":   {[]report.Event{begun}, []report.Event{{Kind: report.ActionStarted, Resource: "db", Action: "mend"}, {Kind: report.ActionFinished, Resource: "db", Action: "mend"}}, false},
		"it was found well":   {[]report.Event{begun}, []report.Event{{Kind: report.ResourceStarted, Resource: "db"}, {Kind: report.ResourceFinished, Resource: "db"}}, false},
		"it was found broken": {[]report.Event{begun}, []report.Event{{Kind: report.ResourceStarted, Resource: "db"}, {Kind: report.ResourceFailed, Resource: "db"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			memory := runs.Memory{Log: s.log}
			ask := func() bool {
				past, err := memory.Past(t.Context(), "db", true)
				if err != nil {
					t.Fatal(err)
				}
				return past.Interrupted
			}
			run := s.begin("dead")
			s.record(run, report.Event{Kind: report.RunStarted}, report.Event{Kind: report.ResourceStarted, Resource: "db"})
			s.record(run, tc.events...)
			if len(tc.events) == 1 && ask() {
				t.Error("an action that goes on counts as interrupted")
			}
			run.End()
			if len(tc.after) == 0 && ask() != tc.want {
				t.Errorf("before its run is closed: %v", !tc.want)
			}
			next := s.begin("next")
			defer next.End()
			s.record(next, tc.after...)
			if ask() != tc.want {
				t.Errorf("got %v", !tc.want)
			}
		})
	}
}
