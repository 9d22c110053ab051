package record

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Carries are the hashes of what a group carries, by name.
type Carries map[string]string

// Place is where jobs may be done: on workers of a platform that a query selects.
type Place struct {
	Platform string `json:"platform"`          // such as linux/amd64
	Workers  string `json:"workers,omitempty"` // a query over the inventory; "" is all hosts

	// Inventory is the one that the workers are of: by its name, or by the path of its file
	// where it has none. "" is any.
	Inventory string `json:"inventory,omitempty"`
}

// Triggered is the data of GroupTriggered.
type Triggered struct {
	Name      string   `json:"name"` // of the definition; the group's id is that with a number
	File      string   `json:"file,omitempty"`
	Touched   []string `json:"touched,omitempty"` // packages; none are all
	Converge  int      `json:"converge,omitempty"`
	By        string   `json:"by,omitempty"`
	FailFast  bool     `json:"fail_fast,omitempty"` // dispatch nothing after a failure
	NoReuse   bool     `json:"no_reuse,omitempty"`  // build also what was built before of the same inputs
	MaxLost   int      `json:"max_lost"`            // how often a job may be lost until it is failed
	Commit    string   `json:"commit,omitempty"`    // of git, that the workspace was at
	Source    *Source  `json:"source,omitempty"`    // that commit as the sources are of it; nil: none were copied, or it is not known
	Artifacts string   `json:"artifacts,omitempty"` // repository of a registry that what is built is pushed to; "" is none
	Pipeline  *From    `json:"pipeline,omitempty"`  // whose build stage it is
	Carries   Carries  `json:"carries,omitempty"`
}

// Source is the commit of git that the workspace was at when sources were copied from it.
type Source struct {
	Repository string `json:"repository,omitempty"` // URL without credentials; "" is not known
	Commit     string `json:"commit"`
	Exact      bool   `json:"exact"` // each file that was copied is the commit's, and none of its is missing; otherwise they were modified
}

// From is the revision of a pipeline that a group builds.
type From struct {
	Pipeline   string           `json:"pipeline"`
	Stage      string           `json:"stage"`
	Revision   string           `json:"revision"`
	Deployment string           `json:"deployment"`
	Target     deploylog.Target `json:"target"`
	Step       string           `json:"step"` // by which the pipeline knows the group, or its last retry, again
}

// Created is the data of GroupCreated.
type Created struct {
	Jobs        int           `json:"jobs"`
	Places      []Place       `json:"places"` // of the jobs
	Cycles      [][]string    `json:"cycles,omitempty"`
	Unbuildable []Unbuildable `json:"unbuildable,omitempty"`
}

// Unbuildable is a package that would have to be built, and cannot be.
type Unbuildable struct {
	Package string `json:"package"`
	Cause   string `json:"cause"`
	Needs   string `json:"needs,omitempty"` // the unbuildable package that it needs; "" of one that cannot be built itself
}

// Jobs is the data of JobsCreated: some of the jobs, in order.
type Jobs struct {
	From int       `json:"from"` // number of the first
	Jobs []JobSpec `json:"jobs"`

	// What did not fit into the data of GroupCreated.
	Cycles      [][]string    `json:"cycles,omitempty"`
	Unbuildable []Unbuildable `json:"unbuildable,omitempty"`
}

// JobSpec is a job as the group was created with it.
type JobSpec struct {
	Package string  `json:"package"` // or the name of a job of an explicit list
	Version string  `json:"version,omitempty"`
	Pass    int     `json:"pass,omitempty"`   // from 1, of a package that is built more than once
	Of      int     `json:"passes,omitempty"` // how often that is
	Uses    []Use   `json:"uses,omitempty"`
	Waits   Numbers `json:"waits,omitzero"`  // jobs that it must not overtake
	Place   int     `json:"place,omitempty"` // index in the places of the group
	Recipe  int     `json:"recipe"`          // index in the recipes that the group carries
	Inputs  string  `json:"inputs"`          // hash of all that goes into it, but for what other jobs build
}

// Use is what a job uses of one package that it needs directly: what a job builds, or what
// was released. What that needs to run comes with it.
type Use struct {
	Package  string `json:"package"`
	Job      int    `json:"job,omitempty"`      // that builds it; 0 is none
	Artifact string `json:"artifact,omitempty"` // digest of what was released, if that is known
	Run      bool   `json:"run,omitempty"`      // whoever uses the result needs it, too
}

// Eligible is the data of JobsEligible and JobDependentsEligible.
type Eligible struct {
	Jobs Numbers `json:"jobs"`
}

// Started is the data of JobStarted.
type Started struct {
	Worker string `json:"worker"`
	Inputs string `json:"inputs"` // hash of all that goes into it
}

// Finished is the data of JobFinished.
type Finished struct {
	Artifact   string            `json:"artifact"`         // digest
	Inputs     string            `json:"inputs"`           // hash of all that went into it
	Reused     deploylog.Target  `json:"reused,omitempty"` // the job whose artifact it is
	Size       int64             `json:"size"`             // bytes
	Files      int               `json:"files"`
	Worker     string            `json:"worker,omitempty"`
	Engine     string            `json:"engine,omitempty"` // name and version
	Image      string            `json:"image,omitempty"`  // digest of its content
	Commit     string            `json:"commit,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"` // that the job wrote
	Provenance string            `json:"provenance,omitempty"`
	Pushed     string            `json:"pushed,omitempty"` // reference in a registry
	Log        string            `json:"log,omitempty"`    // name of the archived log
	LogBytes   int64             `json:"log_bytes,omitempty"`
	Took       time.Duration     `json:"took"` // nanoseconds that its container ran
}

// Failed is the data of JobFailed.
type Failed struct {
	Cause       string        `json:"cause"`
	Exit        int           `json:"exit,omitempty"`
	Unbuildable bool          `json:"unbuildable,omitempty"` // it could not even begin, whichever worker had it
	Worker      string        `json:"worker,omitempty"`
	Output      []string      `json:"output,omitempty"` // the last lines
	Log         string        `json:"log,omitempty"`
	LogBytes    int64         `json:"log_bytes,omitempty"`
	Took        time.Duration `json:"took,omitempty"`

	// What it has built, where that could not be pushed: whoever builds it again only pushes it.
	Unpushed *Finished `json:"unpushed,omitempty"`
}

// Lost is the data of JobLost. Its worker is gone, or something that it uses.
type Lost struct {
	Cause    string   `json:"cause"`
	Worker   string   `json:"worker,omitempty"`
	Spoiled  []string `json:"spoiled,omitempty"`  // digests of artifacts that it uses and that are missing or altered: they are built again
	Mistaken bool     `json:"mistaken,omitempty"` // what was to be reused is missing or altered

	// The process that had it done has died, and with it what would tell how it ended.
	Abandoned bool `json:"abandoned,omitempty"`

	// Another job had filled the disk while it ran.
	Crowded bool `json:"crowded,omitempty"`
}

// Canceled is the data of JobCanceled.
type Canceled struct {
	Worker string `json:"worker,omitempty"`
	Log    string `json:"log,omitempty"`
}

// DependentsFailed is the data of JobDependentsFailed.
type DependentsFailed struct {
	Jobs Numbers `json:"jobs"` // that need the job of the event, directly or not
}

// Spoiled is the data of JobSpoiled.
type Spoiled struct {
	Artifact string  `json:"artifact"` // digest of what is missing or altered
	Cause    string  `json:"cause,omitempty"`
	Jobs     Numbers `json:"jobs,omitzero"` // that use it and have not begun, or were lost: they wait until it is there again
}

// Ended is the data of GroupFinished, GroupFailing, GroupFailed, GroupCanceled and
// GroupStalled.
type Ended struct {
	Cause string `json:"cause,omitempty"`
}

// Canceling is the data of GroupCanceling.
type Canceling struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Retried is the data of GroupRetried.
type Retried struct {
	By         string `json:"by,omitempty"`
	FailedOnly bool   `json:"failed_only,omitempty"`
	Step       string `json:"step,omitempty"` // of the pipeline that wants it
}

// New returns an event of a group or a job.
func New(id string, target deploylog.Target, name string, attempt int, data any) (deploylog.Event, error) {
	text, err := Encode(data)
	return deploylog.Event{Deployment: id, Target: target, Name: name, Attempt: attempt, Data: text}, err
}
