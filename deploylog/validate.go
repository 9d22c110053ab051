package deploylog

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"
)

// The limits of an event's fields, in bytes.
const (
	MaxDeployment = 512
	MaxTarget     = 512
	MaxRevision   = 1024
	MaxName       = 128
	MaxData       = 1 << 20
	MaxAttempt    = 1 << 31
)

// Validate reports whether the event may enter a log. The error wraps ErrInvalid
// and says which field to change and how. Seq, and a zero ID or CreatedAt, are
// the store's to assign and not looked at.
func (e Event) Validate() error {
	if err := e.Target.Validate(); err != nil {
		return err
	}
	for _, field := range [...]struct {
		name, value string
		max         int
		optional    bool
	}{
		{"deployment", e.Deployment, MaxDeployment, false},
		{"revision", e.Revision, MaxRevision, true},
		{"event", e.Name, MaxName, false},
	} {
		if err := validText(field.name, field.value, field.max, field.optional); err != nil {
			return err
		}
	}
	if !isLower(e.Name) || strings.HasSuffix(e.Name, "-") || strings.Contains(e.Name, "--") {
		return invalid("event", "%q is not kebab-case, as in %q", e.Name, "stage-finished-successfully")
	}
	if e.Attempt < 1 || e.Attempt > MaxAttempt {
		return invalid("attempt", "%d is not between 1 and %d", e.Attempt, MaxAttempt)
	}
	if e.ID != "" {
		if id, err := ulid.ParseStrict(e.ID); err != nil || id.String() != e.ID {
			return invalid("id", "%.40q is not a ULID; leave it empty to have one assigned", e.ID)
		}
	}
	if !e.CreatedAt.IsZero() {
		if y := e.CreatedAt.UTC().Year(); y < 1970 || y > 2261 {
			return invalid("created_at", "the year %d cannot be stored in nanoseconds since 1970", y)
		}
	}
	return validData(e.Data)
}

// Validate reports whether the target is a typed path, KIND/rest.
func (t Target) Validate() error {
	if err := validText("target", string(t), MaxTarget, false); err != nil {
		return err
	}
	kind, rest, ok := strings.Cut(string(t), "/")
	switch {
	case !ok || rest == "":
		return invalid("target", "%q does not say of which kind it is, as %q does", string(t), "resource/db")
	case !isLower(kind):
		return invalid("target", "the kind %q of %q is not lower-case letters, digits and dashes", kind, string(t))
	case strings.HasSuffix(rest, "/"):
		return invalid("target", "%q ends in a slash, which in a filter means everything below", string(t))
	}
	return nil
}

func validText(field, s string, limit int, optional bool) error {
	switch {
	case s == "" && !optional:
		return invalid(field, "must not be empty")
	case len(s) > limit:
		return invalid(field, "is %d bytes long, at most %d are allowed", len(s), limit)
	case !utf8.ValidString(s):
		return invalid(field, "%q is not valid UTF-8", s)
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		return invalid(field, "%q holds a control character at byte %d", s, i)
	}
	return nil
}

// isLower reports whether s is [a-z][a-z0-9-]*, spelled out because every event
// of a log passes here, on its way in and whenever the log is verified.
func isLower(s string) bool {
	for i := range len(s) {
		letter := 'a' <= s[i] && s[i] <= 'z'
		if !letter && (i == 0 || s[i] != '-' && (s[i] < '0' || s[i] > '9')) {
			return false
		}
	}
	return s != ""
}

func validData(data json.RawMessage) error {
	switch {
	case len(data) == 0:
		return nil
	case len(data) > MaxData:
		return invalid("data", "is %d bytes long, at most %d are allowed; store large output elsewhere and refer to it", len(data), MaxData)
	case !utf8.Valid(data):
		return invalid("data", "is not valid UTF-8")
	case !json.Valid(data):
		return invalid("data", "is not one JSON value: %.60q", data)
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

// MaxCause is what events keep of an error, in bytes.
const MaxCause = 16 << 10

// Cause is what an event keeps of an error: its end, where the last words of what
// failed are.
func Cause(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= MaxCause {
		return text
	}
	text = text[len(text)-MaxCause:]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return "…" + text
}
