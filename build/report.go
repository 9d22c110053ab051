package build

import (
	"time"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
)

// Summary is how far a group is.
type Summary struct {
	ID          string                 `json:"id"`
	Name        string                 `json:"name"`
	State       transition.Group       `json:"state"`
	Cause       string                 `json:"cause,omitempty"` // of a group that has failed, is stalled or was canceled
	Jobs        int                    `json:"jobs"`
	Counts      map[transition.Job]int `json:"counts"`                // of jobs by their state; none are left out
	Built       int                    `json:"built"`                 // jobs
	Reused      int                    `json:"reused,omitempty"`      // of these, whose artifact was there already
	Unbuildable int                    `json:"unbuildable,omitempty"` // packages
	By          string                 `json:"by,omitempty"`
	Round       int                    `json:"round"` // from 1; each retry begins another
	Created     time.Time              `json:"created"`
	Started     time.Time              `json:"started,omitzero"` // of the round
	Ended       time.Time              `json:"ended,omitzero"`
	Seq         int64                  `json:"event"` // with which it came into its state
	Stalled     bool                   `json:"stalled,omitempty"`
	Pipeline    *record.From           `json:"pipeline,omitempty"`
}

// Report is all that is known of a group but its jobs, of which it has those that run and
// those that have failed.
type Report struct {
	Summary
	Triggered   record.Triggered     `json:"triggered"`
	CanceledBy  *record.Canceling    `json:"canceled,omitempty"`
	Places      []record.Place       `json:"places"`
	Cycles      [][]string           `json:"cycles,omitempty"`
	Unbuildable []record.Unbuildable `json:"unbuildable_packages,omitempty"`
	Running     []JobReport          `json:"running"`
	Failed      []JobReport          `json:"failed"` // those that failed themselves
}

// JobReport is how far a job is.
type JobReport struct {
	Group   string         `json:"group"`
	Number  int            `json:"job"`
	Package string         `json:"package"`
	Version string         `json:"version,omitempty"`
	Pass    int            `json:"pass,omitempty"`
	Of      int            `json:"passes,omitempty"`
	State   transition.Job `json:"state"`
	Attempt int            `json:"attempt,omitempty"` // of the last; 0 before the first
	Lost    int            `json:"lost,omitempty"`    // how often it was, in a row
	Rebuilt int            `json:"rebuilt,omitempty"` // how often, because its artifact was missing or altered
	Cause   string         `json:"cause,omitempty"`   // of a failure or a loss
	Because int            `json:"because,omitempty"` // job that failed, of one that needs it
	Place   record.Place   `json:"place"`
	Recipe  int            `json:"recipe"`
	Uses    []record.Use   `json:"uses,omitempty"`
	Waits   record.Numbers `json:"waits_for,omitempty"`
	Worker  string         `json:"worker,omitempty"`
	Inputs  string         `json:"inputs,omitempty"` // hash of all that went into it; before it was begun, but for what other jobs build
	Began   time.Time      `json:"began,omitzero"`   // the last attempt
	Since   time.Time      `json:"since,omitzero"`   // when it came into its state
	Seq     int64          `json:"event,omitempty"`

	Finished *record.Finished `json:"finished,omitempty"`
	Failed   *record.Failed   `json:"failed,omitempty"`
}

// Inventory is the one that the workers of the group are of; "" is any.
func (r *Report) Inventory() string {
	for _, p := range r.Places {
		if p.Inventory != "" {
			return p.Inventory
		}
	}
	return ""
}
