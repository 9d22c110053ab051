// Package definition is what a file says of a pipeline that promotes by observed state: its
// stages, each an environment, and how a revision comes from one to the next. Parse reads a
// file, and reports every problem with its place.
package definition

import (
	"cmp"
	"strings"
	"time"

	"github.com/deployster-go/deployster/internal/duration"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
	"github.com/deployster-go/deployster/pipeline/promotion/window"
)

// Duration is written as people do: 90s, 5m, 1h30m.
type Duration = duration.Duration

// Definition is a pipeline as it was applied: validated, with all defaults filled in. It is
// stored whole in the event that introduces it.
type Definition struct {
	Name      string    `json:"pipeline"`
	Stages    []Stage   `json:"stages"` // in the order in which a revision comes to them
	Promotion Promotion `json:"promotion"`
}

// Policy is which revisions go through the stages.
type Policy string

// The policies.
const (
	// Single: the revision that the first stage runs goes through all stages; a newer one
	// takes its place.
	Single Policy = "single"

	// Concurrent: each stage gives what it runs to the next, whatever the others run.
	Concurrent Policy = "concurrent"
)

// Promotion is how revisions are found out and promoted.
type Promotion struct {
	Policy Policy `json:"policy"`

	// Variable is the variable of tasks whose value is the revision that an environment runs.
	Variable string `json:"variable"`

	SettleFor  Duration `json:"settle_for,omitempty"` // how long the first stage must have run a revision before it goes on
	RetryAfter Duration `json:"retry_after"`          // after the first failure; then double
}

// KeepUntil is how long a stage keeps a revision before it takes a newer one; "" is UntilVerified. It
// applies to the policy Concurrent, and not to the last stage.
type KeepUntil string

// The values of KeepUntil. Each includes the ones before it.
const (
	UntilSoaked   KeepUntil = "soaked"   // the revision has soaked
	UntilVerified KeepUntil = "verified" // its verification has succeeded or failed
	UntilPromoted KeepUntil = "promoted" // the next stage runs it
)

// Stage is an environment, a manifest on hosts, or objects in clusters, and what a revision waits
// for before it comes there and before it leaves.
type Stage struct {
	Name        string           `json:"name"`
	Environment string           `json:"environment"`       // of a stage that is none, what it is known as instead
	Targets     *Targets         `json:"targets,omitempty"` // nil of one that is not on hosts
	Objects     []object.Object  `json:"objects,omitempty"` // in clusters; none of one that is something else
	Source      *PullRequest     `json:"source,omitempty"`  // where the objects are declared; only its repository, value and token
	SettleFor   *Duration        `json:"settle_for,omitempty"`
	Soak        Duration         `json:"soak,omitempty"` // how long it must have run a revision before that goes on
	KeepUntil   KeepUntil        `json:"keep_until,omitempty"`
	Manual      bool             `json:"manual,omitempty"` // a revision comes here only when somebody approves it
	Calendar    *window.Calendar `json:"calendar,omitempty"`

	Approvals int      `json:"approvals,omitempty"` // by different identities, of a stage that is manual; 0 is 1
	Expires   Duration `json:"expires,omitempty"`   // how long an approval counts; 0 is without end

	Strategy Strategy `json:"strategy,omitempty"` // how a revision comes here; "" is Deploy
	Webhook  *Webhook `json:"webhook,omitempty"`  // that is asked to bring it

	PullRequest *PullRequest `json:"pull_request,omitempty"` // that proposes it

	// Verify is the path of a manifest below the workspace that must have been applied since
	// the stage runs a revision, as a whole, before that goes on. VerifyFiles are the SHA-256
	// of what it carries, itself among them, by path.
	Verify      string            `json:"verify,omitempty"`
	VerifyFiles map[string]string `json:"verify_files,omitempty"`

	VerifyTimeout Duration `json:"verify_timeout,omitempty"` // of one try; 0 is DefaultVerifyTimeout
}

// DefaultVerifyTimeout is how long a try to verify a stage may take where nothing else is said.
const DefaultVerifyTimeout = Duration(time.Hour)

// VerifiedWithin is how long a try to verify the stage may take.
func (s *Stage) VerifiedWithin() time.Duration {
	return time.Duration(cmp.Or(s.VerifyTimeout, DefaultVerifyTimeout))
}

// DefaultSettleFor is how long an object must have been well, and not be written, before that counts
// where nothing else is said: controllers write a status in several steps.
const DefaultSettleFor = Duration(2 * time.Second)

// Settles is how long the objects of the stage must have been well before that counts.
func (s *Stage) Settles() time.Duration {
	if s.SettleFor == nil {
		return time.Duration(DefaultSettleFor)
	}
	return time.Duration(*s.SettleFor)
}

// Strategy is how a revision comes to a stage.
type Strategy string

// The strategies.
const (
	Deploy      Strategy = "deploy"  // the environment is deployed with it, or the manifest applied on the hosts
	WithWebhook Strategy = "webhook" // a program is asked to see to that, by a request that is signed

	WithPullRequest Strategy = "pull-request" // a pull request proposes it to a git repository
)

// Webhook is a program that brings a revision to an environment. What became of that is
// observed.
type Webhook struct {
	URL     string   `json:"url"`
	KeyFile string   `json:"key_file"` // path below the workspace of the key that signs
	Timeout Duration `json:"timeout"`  // by when the environment must run it
}

// Index is the place of a stage, -1 if there is none of that name.
func (d *Definition) Index(stage string) int {
	for i := range d.Stages {
		if d.Stages[i].Name == stage {
			return i
		}
	}
	return -1
}

// Names are those of the stages, in order.
func (d *Definition) Names() []string {
	names := make([]string, len(d.Stages))
	for i := range d.Stages {
		names[i] = d.Stages[i].Name
	}
	return names
}

// Short is the name of a stage as people write it: with or without the name of the pipeline
// before it.
func (d *Definition) Short(stage string) string {
	if d.Index(stage) < 0 {
		if short, ok := strings.CutPrefix(stage, d.Name+"/"); ok {
			return short
		}
	}
	return stage
}
