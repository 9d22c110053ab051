// Package failure is why resources fail: the errors that mean something to whoever asked for a run,
// and the code that reports have of each.
package failure

import (
	"errors"
	"sync"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/deviation"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// ErrQuit is the error of who is asked whether something is to be done, and whose answer is no, also to
// all that was still to begin: what is being done is finished, and nothing else is begun, whether or not
// a run goes on after failures.
var ErrQuit = errors.New("declined, with all that was still to begin")

// ErrDeclined ends a resource that a person does not want changed.
var ErrDeclined = errors.New("declined")

// ErrReadOnly ends a resource that is only observed, and not as it must be.
var ErrReadOnly = errors.New("it is read-only, and not as configured")

// Error says that some resources failed; the events and the plan or result name them, and why.
type Error struct{ Causes []error }

func (e *Error) Error() string   { return errors.Join(e.Causes...).Error() }
func (e *Error) Unwrap() []error { return e.Causes }

// Several are why visits, which are beside each other, failed.
type Several struct {
	mu  sync.Mutex
	all []error
}

// Add adds one. It is safe for concurrent use.
func (s *Several) Add(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, err)
}

// Err is the error of all of them, once nothing is visited any more; nil is none.
func (s *Several) Err() error {
	if len(s.all) == 0 {
		return nil
	}
	return &Error{Causes: s.all}
}

// because is an error whose reason does not follow from its kind.
type because struct {
	code report.ReasonCode
	err  error
}

func (b *because) Error() string { return b.err.Error() }
func (b *because) Unwrap() error { return b.err }

// Because is an error with a reason that does not follow from its kind.
func Because(code report.ReasonCode, err error) error { return &because{code, err} }

// Reason returns the reason of an error that a resource was refused for or failed with.
func Reason(err error) report.ReasonCode {
	var skipped report.Skip
	var known *because
	switch {
	case err == nil:
		return ""
	case errors.As(err, &skipped):
		return skipped.Code
	case errors.As(err, new(*crash.Error)):
		return report.ReasonInternalError
	case errors.Is(err, invoke.ErrInterrupted):
		return report.ReasonInterrupted
	case errors.As(err, &known):
		return known.code
	case errors.Is(err, engine.ErrTimeout):
		return report.ReasonTimeout
	case errors.As(err, new(*deviation.Error)):
		return report.ReasonNotAsPlanned
	case errors.Is(err, ErrReadOnly):
		return report.ReasonReadOnly
	case errors.Is(err, ErrDeclined), errors.Is(err, ErrQuit):
		return report.ReasonDeclined
	case errors.As(err, new(*manifest.Error)):
		return report.ReasonInvalid
	case errors.As(err, new(*protocol.AnswerError)):
		return report.ReasonInvalidAnswer
	default:
		return report.ReasonFailed
	}
}
