package view_test

import (
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/pipeline/reason"
)

// Revisions, targets and errors of a log were written by others.
func TestTheStatusOfAPipelineHasNoControlCharacters(t *testing.T) {
	var out strings.Builder
	err := view.Pipeline(&out, query.PipelineStatus{Name: "p\x1b[2Jp", Waiting: []query.Alike[reason.Reason]{{First: reason.Reason{
		Revision: "1\u202e\x1b[2J", Target: "stage/p/\x1b[1ma", Code: reason.HasFailed, Cause: "x\x1b[2Jx\u202e",
	}}}}, view.PlanOptions{})
	if err != nil || strings.ContainsAny(out.String(), "\x1b\u202e") {
		t.Errorf("%v, %q", err, out.String())
	}
}
