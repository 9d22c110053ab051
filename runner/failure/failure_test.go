package failure_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/deviation"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

func TestTheReasonIsThatOfWhatIsWithin(t *testing.T) {
	invalid := &manifest.Error{Problems: []manifest.Problem{{Message: "wrong"}}}
	for name, tc := range map[string]struct {
		err  error
		want report.ReasonCode
	}{
		"nothing":                {nil, ""},
		"anything":               {errors.New("no"), report.ReasonFailed},
		"skipped":                {report.Skip{Code: report.ReasonOnlyObserved}, report.ReasonOnlyObserved},
		"stopped":                {invoke.ErrInterrupted, report.ReasonInterrupted},
		"stopped, known":         {failure.Because(report.ReasonUnknown, invoke.ErrInterrupted), report.ReasonInterrupted},
		"known":                  {failure.Because(report.ReasonPrevented, invalid), report.ReasonPrevented},
		"too slow":               {engine.ErrTimeout, report.ReasonTimeout},
		"not as planned":         {&deviation.Error{Reason: "other"}, report.ReasonNotAsPlanned},
		"only looked at":         {failure.ErrReadOnly, report.ReasonReadOnly},
		"declined":               {failure.ErrDeclined, report.ReasonDeclined},
		"declined with the rest": {failure.ErrQuit, report.ReasonDeclined},
		"invalid":                {invalid, report.ReasonInvalid},
		"no answer":              {&protocol.AnswerError{Path: "keep", Message: "wrong"}, report.ReasonInvalidAnswer},
	} {
		err := tc.err
		if err != nil {
			err = fmt.Errorf("web: %w", err)
		}
		assert.Equal(t, tc.want, failure.Reason(err), name)
	}
}

func TestSeveralFailuresAreOne(t *testing.T) {
	var all failure.Several
	assert.NoError(t, all.Err(), "none")
	one := errors.New("one")
	all.Add(one)
	all.Add(errors.New("two"))
	err := all.Err()
	assert.True(t, errors.Is(err, one) && err.Error() == "one\ntwo", "got %v", err)
}
