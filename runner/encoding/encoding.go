// Package encoding writes what happens in a run, and reads it again: as the data of an event
// in the deployment log, and as a line of JSON for programs and for clients of a server.
package encoding

import (
	"math"
	"time"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/report"
)

// Fields are what the encodings of an event have in common: its data in the
// deployment log and its line of --output json. Fields are only ever added; readers
// ignore those they do not know.
type Fields struct {
	Status     report.Status    `json:"status,omitempty"`
	Image      string           `json:"image,omitempty"`
	ImageID    string           `json:"image_id,omitempty"`
	Actions    []string         `json:"actions,omitempty"`
	Differs    []string         `json:"differs,omitempty"` // as people read it; of long values the beginning
	Plan       *protocol.Action `json:"plan,omitempty"`    // what the type asked for
	Exit       *int             `json:"exit_code,omitempty"`
	DurationMS *float64         `json:"duration_ms,omitempty"`
	Reason
	Error  string         `json:"error,omitempty"`
	Output []string       `json:"output,omitempty"`
	Counts *report.Counts `json:"counts,omitempty"`
	report.Outputs
}

// FieldsOf is an event as all encodings have it.
func FieldsOf(e report.Event) Fields {
	d := Fields{
		Status: e.Status, Image: e.Image, ImageID: e.ImageID, Actions: e.Actions, Differs: e.Differs, Plan: e.Plan,
		Exit: e.Exit, Reason: ReasonOf(e.Reason, e.Error), Error: e.Error, Output: e.Output, Outputs: e.Outputs,
	}
	switch e.Kind {
	case report.RunFinished, report.RunFailed:
		d.Counts, d.DurationMS = &e.Counts, milliseconds(e.Duration)
	case report.ResourceFinished, report.ResourceFailed, report.ActionFinished, report.ActionFailed:
		d.DurationMS = milliseconds(e.Duration)
	case report.ResourceInitialized:
		if e.Duration > 0 {
			d.DurationMS = milliseconds(e.Duration)
		}
	default: // took no time
	}
	return d
}

// Line is an event as one line of JSON: of --output json, and of what a server sends.
type Line struct {
	Type     report.EventKind `json:"type"`
	Time     time.Time        `json:"time"`
	Resource string           `json:"resource,omitempty"`
	Action   string           `json:"action,omitempty"`
	Attempt  int              `json:"attempt,omitempty"`
	Fields
	Resources []Header          `json:"resources,omitempty"`
	Data      map[string]string `json:"data,omitempty"`
	Current   int64             `json:"current,omitempty"`
	Total     int64             `json:"total,omitempty"`
	Stream    string            `json:"stream,omitempty"`
	Text      *string           `json:"text,omitempty"`
}

// Header is a report.ResourceHeader as a part of a line.
type Header struct {
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	DependsOn []string `json:"depends_on"`
}

// LineOf is an event as a line.
func LineOf(e report.Event) Line {
	line := Line{
		Type: e.Kind, Time: e.Time, Resource: e.Resource, Action: e.Action, Attempt: e.Attempt, Fields: FieldsOf(e),
		Data: e.Data, Current: e.Current, Total: e.Total, Stream: e.Stream,
	}
	switch e.Kind {
	case report.Line, report.Waiting, report.Warning, report.Leftover:
		line.Text = &e.Text
	default: // has none
	}
	for _, h := range e.Resources {
		line.Resources = append(line.Resources, Header{h.Name, h.Type, append([]string{}, h.DependsOn...)})
	}
	return line
}

// Event is the event that a line is of, without where the output of an action is kept: that
// is a file where the run is.
func (l Line) Event() report.Event {
	e := report.Event{
		Kind: l.Type, Time: l.Time, Resource: l.Resource, Action: l.Action, Attempt: l.Attempt,
		Image: l.Image, ImageID: l.ImageID, Status: l.Status, Actions: l.Actions, Differs: l.Differs, Exit: l.Exit, Reason: l.Code, Error: l.Error, Output: l.Output,
		Plan: l.Plan, Data: l.Data, Current: l.Current, Total: l.Total, Stream: l.Stream, Outputs: l.Outputs,
	}
	if l.DurationMS != nil {
		e.Duration = time.Duration(math.Round(*l.DurationMS*1000)) * time.Microsecond
	}
	if l.Counts != nil {
		e.Counts = *l.Counts
	}
	if l.Text != nil {
		e.Text = *l.Text
	}
	for _, h := range l.Resources {
		e.Resources = append(e.Resources, report.ResourceHeader(h))
	}
	return e
}

// Reason is why a resource was skipped, refused or failed. The message is also
// there under its earlier name, error, as that of other failures.
type Reason struct {
	Code    report.ReasonCode `json:"reason,omitempty"`
	Message string            `json:"message,omitempty"`
}

// ReasonOf is a reason with its message as all encodings have it.
func ReasonOf(c report.ReasonCode, message string) Reason {
	if c == "" {
		return Reason{}
	}
	return Reason{c, message}
}

// milliseconds keeps microseconds, as decimals.
func milliseconds(d time.Duration) *float64 {
	ms := float64(d.Microseconds()) / 1000
	return &ms
}
