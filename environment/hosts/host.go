package hosts

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// Host is a machine that has tasks, or should have one.
type Host struct {
	Name           string              `json:",omitzero"`
	Index          int                 `json:",omitzero"`
	Desired        bool                `json:",omitzero"` // it should have a task of the active revision
	Lost           bool                `json:",omitzero"` // it is no longer in the inventory
	Absent         bool                `json:",omitzero"` // nor is this one, which the environment keeps while it holds
	Spared         bool                `json:",omitzero"` // a rollback leaves its tasks alone until somebody confirms that it leaves
	Baked          bool                `json:",omitzero"` // it failed in the bake of the active deployment
	Started        bool                `json:",omitzero"` // the active deployment started a task of its revision on it
	Replaced       bool                `json:",omitzero"` // it began to take away a task that may be of use
	DeadlinePassed string              `json:",omitzero"` // deployment whose healthy deadline its task missed
	Check          tasks.CheckFailure  `json:",omitzero"` // of its new task; zero is none
	Tasks          []*tasks.State      `json:",omitzero"`
	Attempts       tasks.AttemptCounts `json:",omitzero"`
	Cordon         *report.Cordon      `json:",omitzero"` // nil while it is not cordoned
	Zone           string              `json:",omitzero"` // by the attribute that hosts are ordered by; "" is none
	Resumed        time.Time           `json:",omitzero"` // when it was uncordoned
	Generation     int                 `json:",omitzero"` // incremented on every evaluation, so that stale timers are ignored
	Status         Status              `json:",omitzero"`
}

// Find returns the task of a revision, nil where there is none.
func (h *Host) Find(revision int) *tasks.State {
	for _, t := range h.Tasks {
		if t.Revision == revision {
			return t
		}
	}
	return nil
}

// Add returns the task of a revision, and adds it if it is new.
func (h *Host) Add(revision int) *tasks.State {
	t := h.Find(revision)
	if t == nil {
		t = &tasks.State{Revision: revision, Of: revision}
		i, _ := slices.BinarySearchFunc(h.Tasks, revision, func(t *tasks.State, r int) int { return t.Revision - r })
		h.Tasks = slices.Insert(h.Tasks, i, t)
	}
	return t
}

// Remove forgets the task of a revision, which is gone.
func (h *Host) Remove(revision int) {
	h.Tasks = slices.DeleteFunc(h.Tasks, func(t *tasks.State) bool { return t.Revision == revision })
}

// AvailableTasks counts the tasks of the host that count as healthy.
func (h *Host) AvailableTasks() (n int) {
	for _, t := range h.Tasks {
		if t.Available() {
			n++
		}
	}
	return n
}

// Replaces reports whether to terminate a task takes from its host the only one that is
// healthy, or the last one that there is.
func (h *Host) Replaces(t *tasks.State) bool {
	if t == nil || t.Status == report.TaskTerminating || !h.Desired || h.Cordon != nil {
		return false
	}
	return len(h.Tasks) == 1 || t.Available() && h.AvailableTasks() == 1
}

// SetAbsent marks a host that is kept as not in the inventory, or as back. What failed on
// it until then does not count.
func (h *Host) SetAbsent(absent bool) {
	if h.Absent == absent {
		return
	}
	h.Absent = absent
	for _, t := range h.Tasks {
		t.FailedIn, t.FirstStarted = "", time.Time{}
	}
}
