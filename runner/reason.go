package runner

import (
	"errors"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/deviation"
	"github.com/deployster-go/deployster/runner/report"
)

// reasonError is an error whose reason does not follow from its kind.
type reasonError struct {
	code report.ReasonCode
	err  error
}

func (e *reasonError) Error() string { return e.err.Error() }
func (e *reasonError) Unwrap() error { return e.err }

// reasonOf returns the reason of an error that a resource was refused for or
// failed with.
func reasonOf(err error) report.ReasonCode {
	var skipped report.Skip
	var known *reasonError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &skipped):
		return skipped.Code
	case errors.As(err, new(*crash.Error)):
		return report.ReasonInternalError
	case errors.Is(err, ErrInterrupted):
		return report.ReasonInterrupted
	case errors.As(err, &known):
		return known.code
	case errors.Is(err, engine.ErrTimeout):
		return report.ReasonTimeout
	case errors.As(err, new(*deviation.Error)):
		return report.ReasonNotAsPlanned
	case errors.Is(err, errReadOnly):
		return report.ReasonReadOnly
	case errors.Is(err, errDeclined), errors.Is(err, ErrQuit):
		return report.ReasonDeclined
	case errors.As(err, new(*manifest.Error)):
		return report.ReasonInvalid
	case errors.As(err, new(*protocol.AnswerError)):
		return report.ReasonInvalidAnswer
	default:
		return report.ReasonFailed
	}
}

// failed is the event of a resource that failed.
func failed(res *resource, err error) report.Event {
	e := res.having(report.ResourceFailed, report.Failed)
	e.Reason, e.Error = reasonOf(err), err.Error()
	return e
}

// skipped is the event of a resource that is skipped.
func skipped(res *resource, why report.Skip) report.Event {
	e := res.having(report.ResourceSkipped, report.Skipped)
	e.Reason, e.Error = why.Code, why.Error()
	return e
}
