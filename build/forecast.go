package build

import "time"

// Forecast is when a group will have ended, if every job takes as long as it did last and
// succeeds.
type Forecast struct {
	Group    string        `json:"group"`
	Jobs     int           `json:"jobs"`     // that are left
	Measured int           `json:"measured"` // of these, those of which it is known how long they take
	Ahead    int           `json:"ahead"`    // jobs of older groups, which come first
	Work     time.Duration `json:"work"`     // of all jobs that are left, nanoseconds
	Path     time.Duration `json:"path"`     // of the longest chain of jobs that need each other
	Critical []int         `json:"critical"` // jobs of that
	Slots    int           `json:"slots"`
	Left     time.Duration `json:"left"`
	End      time.Time     `json:"end,omitzero"`
	Unserved []int         `json:"unserved,omitempty"` // jobs that no worker serves: it will not end
}
