package environment

import (
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
)

// Command is what a person wants of an environment.
type Command interface{ isCommand() }

// Create makes the first revision of an environment. Nothing is deployed yet.
type Create struct {
	Definition *definition.Definition
	Inventory  string // that its query is over; see Bound
	Bound      bool   // it may bring no more than the definition names and allows
	By         string
}

// Update makes a revision from another, which must be the newest: with a stale
// base it is refused, and nothing is overwritten. Nothing is deployed yet.
type Update struct {
	Base       int
	Definition *definition.Definition
	Inventory  string // that its query is over; "" is that of before
	Bound      bool   // as of Create
	Pending    bool   // if it may not be made as it is, it is asked for
	By         string
}

// Deploy rolls a revision out to its hosts. A revision older than the one that is
// active or being deployed is refused: that is a Rollback.
type Deploy struct {
	Revision  int
	Change    record.Change
	Hosts     []string // that the revision's query selects now
	Inventory string   // of the hosts; it is refused unless the environment is bound to it
	By        string
	Reason    string
	Step      string // what began it, if that finds it again by this; see Deployment
}

// Rollback reactivates an earlier revision, and reverts the newer ones.
type Rollback struct {
	Revision  int
	Change    record.Change
	Hosts     []string
	Inventory string // as of Deploy
	By        string
	Reason    string
	LastGood  bool // it is refused unless the revision is State.LastGood
}

// Pause lets nothing new begin until Resume or another deployment.
type Pause struct{ By, Reason string }

// Resume ends a Pause.
type Resume struct{ By, Reason string }

// Delete ends an environment. Its tasks are terminated before, or left running,
// unmanaged. While they are being terminated, it changes nothing, unless it says that
// the rest is to be left running.
type Delete struct {
	TerminateTasks bool
	LeaveTasks     bool // also while they are being terminated
	By, Reason     string
}

// ConfirmHosts lets an environment lose the hosts for which it holds. It is refused when
// others would leave, and so many that it would hold for them, too.
type ConfirmHosts struct {
	Hosts      []string               // that its query selects now
	Known      func(host string) bool // as of SetHosts
	Inventory  string                 // as of Deploy
	By, Reason string
}

// SetHosts records which hosts the query of the active revision selects, and which
// of the other hosts that have tasks are in the inventory at all: a host that is
// not cannot be cleaned up. When more hosts would leave at once than max_leaving, the
// environment holds instead: it keeps them until they are back, or until ConfirmHosts.
type SetHosts struct {
	Selected []string
	Known    func(host string) bool

	// Attribute is the value of an attribute of a host, "" where it has none.
	Attribute func(host, name string) string
}

func (Create) isCommand()       {}
func (Update) isCommand()       {}
func (Deploy) isCommand()       {}
func (Rollback) isCommand()     {}
func (Pause) isCommand()        {}
func (Resume) isCommand()       {}
func (Delete) isCommand()       {}
func (SetHosts) isCommand()     {}
func (ConfirmHosts) isCommand() {}

// paceOf is the change that gives another configuration the pace of this one.
func paceOf(c definition.Configuration) record.Change {
	change := record.Change{Method: &c.Method, MinHealthyPercent: &c.MinHealthyPercent, MaxOver: &c.MaxOver}
	if c.MaxUnavailable != nil {
		change.MinHealthyPercent, change.MaxUnavailable = nil, c.MaxUnavailable
	}
	if c.MaxSurge != nil {
		change.MaxOver, change.MaxSurge = nil, c.MaxSurge
	}
	return change
}
