package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/deployster-go/deployster/internal/pattern"
)

// Body is what a signed request approves.
type Body struct {
	Pipeline string `json:"pipeline"`
	Stage    string `json:"stage"` // its whole name
	Revision string `json:"revision"`
	Carries  string `json:"carries"` // hash of what the revision carries
	Reason   string `json:"reason,omitempty"`
}

// Path is where approvals of a stage are sent to.
func Path(pipeline, stage string) string {
	return "/v1/pipelines/" + url.PathEscape(pipeline) + "/stages/" + url.PathEscape(stage) + "/approvals"
}

const maxText = 1000

var validHash = pattern.Lazy(`^sha256:[0-9a-f]{64}$`)

// DecodeBody reads the body of a request.
func DecodeBody(text []byte) (b Body, err error) {
	if len(text) > MaxBody {
		return b, fmt.Errorf("the body has more than %d bytes", MaxBody)
	}
	if !utf8.Valid(text) {
		return b, errors.New("the body is no text in UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return Body{}, fmt.Errorf("the body is not what it should be, a JSON object with pipeline, stage, revision, carries and reason: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Body{}, errors.New("there is something behind the JSON object of the body")
	}
	for name, text := range map[string]string{"pipeline": b.Pipeline, "stage": b.Stage, "revision": b.Revision} {
		if text == "" || len(text) > maxText {
			return Body{}, fmt.Errorf("%s must have 1 to %d bytes", name, maxText)
		}
	}
	if !validHash().MatchString(b.Carries) {
		return Body{}, errors.New("carries must be the hash of what the revision carries, sha256: and 64 hexadecimal digits, as pipeline explain shows it")
	}
	if len(b.Reason) > maxText || strings.ContainsFunc(b.Reason, unicode.IsControl) {
		return Body{}, fmt.Errorf("reason must be one line of at most %d bytes", maxText)
	}
	return b, nil
}
