package runner

import (
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
	Plan       *protocol.Action `json:"plan,omitempty"` // what the type asked for
	Exit       *int             `json:"exit_code,omitempty"`
	DurationMS *float64         `json:"duration_ms,omitempty"`
	ReasonData
	Error  string   `json:"error,omitempty"`
	Output []string `json:"output,omitempty"`
	Counts *Counts  `json:"counts,omitempty"`
}

// Encoded is the event as all encodings have it.
func (e Event) Encoded() EventData {
	d := EventData{
		Status: e.Status, Image: e.Image, ImageID: e.ImageID, Actions: e.Actions, Plan: e.Plan,
		Exit: e.Exit, ReasonData: e.Reason.Encoded(e.Error), Error: e.Error, Output: e.Output,
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
