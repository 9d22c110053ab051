package promotion

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Health is what is known of an environment as a whole.
type Health string

// The healths of an environment.
const (
	Unknown Health = "unknown" // it cannot be observed, which never counts as healthy
	Whole   Health = "healthy" // all its targets are, and run one revision
	Partly  Health = "unhealthy"
)

// Observation is what an environment was observed to run. The zero value is that of one that
// cannot be observed.
type Observation struct {
	Health   Health
	Revision string // that it runs as a whole, or else that of its active definition; "" is not known
	Value    any    // the revision as its variable has it
	Why      string // it is not healthy, or unknown
	Deleted  bool   // and so unknown: nothing runs there any more

	// Runs are the revisions that any target runs, healthy or otherwise, and the one that is
	// being deployed.
	Runs []string

	Since time.Time // that it runs it as a whole
	Ahead time.Time // when Since was first seen to be in the future: the clock was set back
	Event int64     // the newest of the environment that is considered

	// Came is the event with which it came to run the revision: of the first of the deployments in a row
	// that have it. Promotions and runs are of that.
	Came int64

	// Arrived is the same, or the last with which all of it ran the revision again after a part had run
	// another one, or somebody had taken it back; 0 is never. Approvals, rejections and verifications
	// are of that.
	Arrived int64

	Unknown time.Time // since when it is unknown, where that was recorded

	Suspended []string // objects that their controllers leave as they are

	Asked []string // revisions of which it was asked whether it runs them; empty is whatever it runs

	Begun map[string]Begun // deployments by promotions, by the key of the step

	Active     Deployment // the deployment that decides what runs there
	RolledBack Rollback   // the last that somebody did by hand
	Moving     bool       // it is being deployed, and nothing keeps that from going on
}

// Deployment is one of an environment.
type Deployment struct {
	ID       string
	Revision string // the value of the variable
	Status   DeploymentStatus
	Cause    string // of being stuck
}

// DeploymentStatus is how far a deployment of an environment has come.
type DeploymentStatus string

// The statuses of deployments.
const (
	Deploying DeploymentStatus = "deploying"
	Stuck     DeploymentStatus = "stuck"
	Deployed  DeploymentStatus = "deployed"
)

// Rollback is one of an environment by hand; its event is 0 where there was none.
type Rollback struct {
	Event      int64
	By, Reason string
}

// Observed is what was observed, by environment. One that is missing is unknown.
type Observed map[string]Observation

// arrived is the event with which all of it came to run the revision the last time.
func (o Observation) arrived() int64 { return max(o.Came, o.Arrived) }

func (o Observed) of(environment string) Observation {
	seen, ok := o[environment]
	switch {
	case !ok:
		return Observation{Health: Unknown, Why: "it was not observed yet"}
	case seen.Health == "":
		seen.Health = Unknown
	}
	return seen
}

// ran is since when it has run the revision as a whole for certain. Where a clock was set back
// that is not before it was first seen, so that nothing counts as proven too early, and nothing
// waits for the clock to be where it was.
func (o Observation) ran(now time.Time) time.Time {
	switch {
	case !o.Ahead.IsZero():
		return o.Ahead
	case o.Since.After(now):
		return now
	default:
		return o.Since
	}
}

// wholly reports whether all targets are healthy and run a revision.
func (o Observation) wholly(revision string) bool {
	return o.Health == Whole && o.Revision == revision && revision != ""
}

// anywhere reports whether any target runs a revision, healthy or otherwise.
func (o Observation) anywhere(revision string) bool {
	return o.wholly(revision) || slices.Contains(o.Runs, revision)
}

// TextOf is the revision that a value of the variable stands for, "" for what cannot be one.
func TextOf(value any) string {
	const most = 1000 // bytes that fit as a revision into the log
	text := ""
	switch value := value.(type) {
	case string:
		text = value
	case int64, int, bool:
		text = fmt.Sprint(value)
	case float64:
		text = strconv.FormatFloat(value, 'f', -1, 64)
	}
	if len(text) > most {
		return ""
	}
	return text
}
