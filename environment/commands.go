package environment

// Command is something that a person wants of an environment.
type Command interface{ isCommand() }

// Create makes the first revision of an environment. Nothing happens yet.
type Create struct {
	Definition *Definition
	By         string
}

// Update makes a revision from another, which must be the newest: who made a
// newer one meanwhile is told, and nothing overwritten. Nothing happens yet.
type Update struct {
	Base       int
	Definition *Definition
	By         string
}

// Deploy brings a revision to its hosts. One older than that which is active or
// being deployed is refused: that is a Rollback.
type Deploy struct {
	Revision int
	Change   Change
	Hosts    []string // that the revision's query selects at present
	By       string
	Reason   string
}

// Rollback brings an earlier revision back, and reverts the newer ones.
type Rollback struct {
	Revision int
	Change   Change
	Hosts    []string
	By       string
	Reason   string
}

// Change is what of a revision's configuration is different for one deployment;
// nil fields are as in the revision.
type Change struct {
	Method            *Method `json:"method,omitempty"`
	MinHealthyPercent *int    `json:"min_healthy_percent,omitempty"`
	MaxOver           *int    `json:"max_over,omitempty"`
}

// Pause lets nothing new begin until Resume or another deployment.
type Pause struct{ By, Reason string }

// Resume ends a Pause.
type Resume struct{ By, Reason string }

// Delete ends an environment. Its tasks are terminated before, or are left
// running and are nobody's.
type Delete struct {
	TerminateTasks bool
	By, Reason     string
}

// SetHosts tells which hosts the query of the revision in force selects, and
// which of the others that have tasks are there at all: one that is not cannot
// be cleaned.
type SetHosts struct {
	Selected []string
	Known    func(host string) bool
}

func (Create) isCommand()   {}
func (Update) isCommand()   {}
func (Deploy) isCommand()   {}
func (Rollback) isCommand() {}
func (Pause) isCommand()    {}
func (Resume) isCommand()   {}
func (Delete) isCommand()   {}
func (SetHosts) isCommand() {}

// apply returns a configuration with what is different.
func (c Change) apply(to Configuration) Configuration {
	if c.Method != nil {
		to.Method = *c.Method
	}
	if c.MinHealthyPercent != nil {
		to.MinHealthyPercent = *c.MinHealthyPercent
	}
	if c.MaxOver != nil {
		to.MaxOver = *c.MaxOver
	}
	return to
}
