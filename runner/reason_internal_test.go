package runner

import "testing"

// The sentences of what was skipped; everything else asserts their codes.
func TestSkipsHaveSentences(t *testing.T) {
	for code, want := range map[ReasonCode]string{
		ReasonDependencyFailed: "db failed",
		ReasonRunFailed:        "the run stopped when db failed",
		ReasonRunQuit:          "the run was quit at db",
		ReasonInterrupted:      "the run was interrupted",
		ReasonRunRefused:       "nothing was applied",
		ReasonRemovalRefused:   "nothing was removed",
		ReasonOnlyObserved:     "only observed: left alone",
		ReasonNeverApplied:     "never applied, as far as the log knows; not asked whether it is there",
		ReasonNotTargeted:      "not to be removed, only looked at",
	} {
		if got := (skip{code, "db"}).Error(); got != want {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
}
