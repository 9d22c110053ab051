package runner

import (
	"math"
	"time"

	"github.com/deployster-go/deployster/protocol"
)

// EventData is what the encodings of an event have in common: its data in the
// deployment log and its line of --output json. Fields are only ever added; readers
// ignore those they do not know.
type EventData struct {
	Status     Status           `json:"status,omitempty"`
	Image      string           `json:"image,omitempty"`
	ImageID    string           `json:"image_id,omitempty"`
	Actions    []string         `json:"actions,omitempty"`
	Differs    []string         `json:"differs,omitempty"` // as people read it; of long values the beginning
	Plan       *protocol.Action `json:"plan,omitempty"`    // what the type asked for
	Exit       *int             `json:"exit_code,omitempty"`
	DurationMS *float64         `json:"duration_ms,omitempty"`
	ReasonData
	Error  string   `json:"error,omitempty"`
	Output []string `json:"output,omitempty"`
	Counts *Counts  `json:"counts,omitempty"`
	Outputs
}

// Encoded is the event as all encodings have it.
func (e Event) Encoded() EventData {
	d := EventData{
		Status: e.Status, Image: e.Image, ImageID: e.ImageID, Actions: e.Actions, Differs: e.Differs, Plan: e.Plan,
		Exit: e.Exit, ReasonData: e.Reason.Encoded(e.Error), Error: e.Error, Output: e.Output, Outputs: e.Outputs,
	}
	switch e.Kind {
	case RunFinished, RunFailed:
		d.Counts, d.DurationMS = &e.Counts, milliseconds(e.Duration)
	case ResourceFinished, ResourceFailed, ActionFinished, ActionFailed:
		d.DurationMS = milliseconds(e.Duration)
	case ResourceInitialized:
		if e.Duration > 0 {
			d.DurationMS = milliseconds(e.Duration)
		}
	default: // took no time
	}
	return d
}

// EventLine is an event as one line of JSON: of --output json, and of what a server sends.
type EventLine struct {
	Type     EventKind `json:"type"`
	Time     time.Time `json:"time"`
	Resource string    `json:"resource,omitempty"`
	Action   string    `json:"action,omitempty"`
	Attempt  int       `json:"attempt,omitempty"`
	EventData
	Resources []HeaderLine      `json:"resources,omitempty"`
	Data      map[string]string `json:"data,omitempty"`
	Current   int64             `json:"current,omitempty"`
	Total     int64             `json:"total,omitempty"`
	Stream    string            `json:"stream,omitempty"`
	Text      *string           `json:"text,omitempty"`
}

// HeaderLine is a ResourceHeader as a part of a line.
type HeaderLine struct {
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	DependsOn []string `json:"depends_on"`
}

// Line is the event as a line.
func (e Event) Line() EventLine {
	line := EventLine{
		Type: e.Kind, Time: e.Time, Resource: e.Resource, Action: e.Action, Attempt: e.Attempt, EventData: e.Encoded(),
		Data: e.Data, Current: e.Current, Total: e.Total, Stream: e.Stream,
	}
	switch e.Kind {
	case Line, Waiting, Warning, Leftover:
		line.Text = &e.Text
	default: // has none
	}
	for _, h := range e.Resources {
		line.Resources = append(line.Resources, HeaderLine{h.Name, h.Type, append([]string{}, h.DependsOn...)})
	}
	return line
}

// Event is the event that a line is of, without where the output of an action is kept: that
// is a file where the run is.
func (l EventLine) Event() Event {
	e := Event{
		Kind: l.Type, Time: l.Time, Resource: l.Resource, Action: l.Action, Attempt: l.Attempt,
		Image: l.Image, ImageID: l.ImageID, Status: l.Status, Actions: l.Actions, Differs: l.Differs, Exit: l.Exit, Reason: l.Reason, Error: l.Error, Output: l.Output,
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
		e.Resources = append(e.Resources, ResourceHeader(h))
	}
	return e
}

// ReasonData is why a resource was skipped, refused or failed. The message is also
// there under its earlier name, error, as that of other failures.
type ReasonData struct {
	Reason  ReasonCode `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
}

// Encoded is the reason with its message as all encodings have it.
func (c ReasonCode) Encoded(message string) ReasonData {
	if c == "" {
		return ReasonData{}
	}
	return ReasonData{c, message}
}

// milliseconds keeps microseconds, as decimals.
func milliseconds(d time.Duration) *float64 {
	ms := float64(d.Microseconds()) / 1000
	return &ms
}
