package report

// Status is what is known of a resource.
type Status string

// The statuses of a resource within a plan or a run.
const (
	Pending   Status = "PENDING"   // nothing is known yet
	Valid     Status = "VALID"     // as configured
	Stale     Status = "STALE"     // not as configured
	Unknown   Status = "UNKNOWN"   // known after apply of a dependency
	Unchanged Status = "UNCHANGED" // was VALID when first looked at
	Changed   Status = "CHANGED"   // was STALE, is VALID now
	Present   Status = "PRESENT"   // of a Destroy: it is there
	Absent    Status = "ABSENT"    // of a Destroy: it is not there; as an end, it was not
	Destroyed Status = "DESTROYED" // of a Destroy: it was there, and is gone now
	Failed    Status = "FAILED"
	Skipped   Status = "SKIPPED" // not tried
)

// Counts sums up a run; what a Destroy removed is Changed.
type Counts struct {
	Changed   int `json:"changed"`
	Unchanged int `json:"unchanged"`
	Failed    int `json:"failed"`
	Skipped   int `json:"skipped"`
	Removed   int `json:"removed,omitempty"` // by an Apply, of what is no longer declared
}

// Add counts the end of a resource.
func (c *Counts) Add(s Status) {
	switch s {
	case Changed, Destroyed:
		c.Changed++
	case Unchanged, Absent:
		c.Unchanged++
	case Failed:
		c.Failed++
	default:
		c.Skipped++
	}
}
