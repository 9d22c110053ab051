package report_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/runner/report"
)

// The sentences of what was skipped; everything else asserts their codes.
func TestSkipsHaveSentences(t *testing.T) {
	for code, want := range map[report.ReasonCode]string{
		report.ReasonDependencyFailed: "db failed",
		report.ReasonRunFailed:        "the run stopped when db failed",
		report.ReasonRunQuit:          "the run was quit at db",
		report.ReasonInterrupted:      "the run was interrupted",
		report.ReasonRunRefused:       "nothing was applied",
		report.ReasonRemovalRefused:   "nothing was removed",
		report.ReasonOnlyObserved:     "only observed: left alone",
		report.ReasonNeverApplied:     "never applied, as far as the log knows; not asked whether it is there",
		report.ReasonNotTargeted:      "not to be removed, only looked at",
	} {
		assert.Equal(t, want, (report.Skip{Code: code, Resource: "db"}).Error(), code)
	}
}
