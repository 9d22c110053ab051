package health

import (
	"context"
	"errors"
	"testing"

	"github.com/deployster-go/deployster/runner/report"
)

type recorded []report.EventKind

func (r *recorded) Record(_ context.Context, e report.Event) error {
	*r = append(*r, e.Kind)
	return nil
}

func TestWhyATaskFailedIsToldWithTheLastOutputOfItsActions(t *testing.T) {
	var log recorded
	tail := &OutputTail{Recorder: &log}
	cause := errors.New("web: it failed")
	if got := tail.With(cause); got != cause { //nolint:errorlint // the very same
		t.Errorf("without output it is %v", got)
	}
	for _, e := range []report.Event{
		{Kind: report.ActionStarted},
		{Kind: report.ActionFailed, Error: "exited with 1: error: no", Output: []string{"the port", "is taken", "error: no"}},
		{Kind: report.ActionFailed, Error: "it was killed", Output: []string{"loading"}},
		{Kind: report.ActionFailed, Error: "it never began"},
	} {
		if err := tail.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	got := tail.With(cause)
	if want := "web: it failed\nthe port\nis taken\nloading"; got.Error() != want || !errors.Is(got, cause) {
		t.Errorf("it is %q, want %q", got, want)
	}
	if len(log) != 4 {
		t.Errorf("recorded are %v", log)
	}
}
