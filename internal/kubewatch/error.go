package kubewatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Error is that a cluster refuses something, or cannot do it: it is no use to ask again at once.
type Error struct {
	Cluster string
	Attempt string // begins with a verb
	Status  int    // of HTTP; 0 where it is no answer
	Cause   error
}

// Error says what was attempted on which cluster.
func (e *Error) Error() string {
	return fmt.Sprintf("cluster %s: %s: %s", e.Cluster, e.Attempt, e.Cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// refusal is the error of an answer. One of a server that cannot answer now is no refusal.
func (c *client) refusal(attempt string, answer *http.Response) error {
	var status struct {
		Message string `json:"message"`
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostStatus))
	if err != nil || json.Unmarshal(text, &status) != nil || status.Message == "" {
		status.Message = "it answers " + answer.Status
	}
	verb, what, _ := strings.Cut(attempt, " ")
	cause := errors.New(status.Message)
	switch code := answer.StatusCode; {
	case code == http.StatusUnauthorized:
		cause = fmt.Errorf("it does not know who asks: %w; check the credentials of the context, such as with `kubectl auth whoami`", cause)
	case code == http.StatusForbidden && (verb == "list" || verb == "watch"):
		cause = fmt.Errorf("%w; grant the verbs list and watch on %s", cause, what)
	case code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		return fmt.Errorf("cluster %s does not answer: %s: %w", c.cluster, attempt, cause)
	}
	return &Error{Cluster: c.cluster, Attempt: attempt, Status: answer.StatusCode, Cause: cause}
}
