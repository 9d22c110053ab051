// Package definition is what a file says of a pipeline: its stages, what each does, and
// its batches. Parse reads a file, and reports every problem with its place; the machine of
// package pipeline stores the result whole in the log, and is the only one to give it meaning.
package definition

import (
	"fmt"
	"strings"
	"time"

	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/duration"
	"github.com/deployster-go/deployster/internal/phrase"
)

// Definition is a pipeline as it was applied: validated, with all defaults
// filled in. It is stored whole in the event that introduces it.
type Definition struct {
	Name      string  `json:"pipeline"`
	Stages    []Stage `json:"stages"` // after those they come after
	Batches   []Batch `json:"batches,omitempty"`
	Supersede bool    `json:"supersede,omitempty"` // the newest revision wins: what waits for the same as a newer one is passed over

	Allow *allow.Rules `json:"allow,omitempty"` // what revisions of identities of some pipelines may bring beyond what it names itself
}

// Stage is one stage. Exactly one of Build, Deploy, Run, Approval and Environment
// is set.
type Stage struct {
	Name        string    `json:"name"`
	After       []string  `json:"after"` // names of stages; none for a first one
	Build       *Build    `json:"build,omitempty"`
	Deploy      *Deploy   `json:"deploy,omitempty"`
	Run         *Run      `json:"run,omitempty"`
	Approval    *Approval `json:"approval,omitempty"`
	Environment string    `json:"environment,omitempty"` // that a revision is deployed to

	StopOnFailure *bool `json:"stop_on_failure,omitempty"` // nil is true; see StopsOnFailure

	When When `json:"when,omitempty"` // "" is after the success of the stages before

	Inputs []Input `json:"inputs,omitempty"` // what a revision takes of other pipelines
}

// StopsOnFailure reports whether a failure in the stage keeps later revisions out of it,
// which may break like the one that failed. A build changes nothing that others have, and
// an approval does not fail.
func (s *Stage) StopsOnFailure() bool {
	return s.When == "" && s.changesOthers() && (s.StopOnFailure == nil || *s.StopOnFailure)
}

func (s *Stage) changesOthers() bool { return s.Deploy != nil || s.Run != nil || s.Environment != "" }

// When says after which end of the earlier stages a stage runs.
type When string

// The values of When, but for that of most stages.
const (
	Always     When = "always" // whichever way they ended
	WhenFailed When = "failed" // one of them failed
)

// Closing reports whether the stage also runs, or only, after earlier ones did not succeed.
func (s *Stage) Closing() bool { return s.When != "" }

// Kind is the key under which the stage says what it does.
func (s *Stage) Kind() string {
	switch {
	case s.Build != nil:
		return "build"
	case s.Deploy != nil:
		return "deploy"
	case s.Run != nil:
		return "run"
	case s.Environment != "":
		return "environment"
	default:
		return KindApproval
	}
}

// KindApproval is the kind of a stage that waits for approval.
const KindApproval = "approval"

// Timeout is how long what the stage applies by itself may take; 0 is without end.
func (s *Stage) Timeout() time.Duration {
	switch {
	case s.Build != nil:
		return time.Duration(s.Build.Timeout)
	case s.Run != nil:
		return time.Duration(s.Run.Timeout)
	default:
		return 0
	}
}

// Patience is how long the stage waits for what others do, artifacts or approvals; 0 is
// without end, and of a stage that waits for nobody.
func (s *Stage) Patience() time.Duration {
	switch {
	case s.Approval != nil:
		return time.Duration(s.Approval.Expires)
	case s.Build.Elsewhere():
		return time.Duration(s.Build.Timeout)
	default:
		return 0
	}
}

// Once is what the stage applies by itself, a manifest or the packages of a build group, and
// how often that is tried again; "" of a stage that applies nothing, or something on hosts.
func (s *Stage) Once() (manifest string, retries int) {
	switch {
	case s.Build != nil && s.Build.Group != "":
		return s.Build.Group, 0
	case s.Build != nil:
		return s.Build.Manifest, s.Build.Retries
	case s.Run != nil:
		return s.Run.Manifest, s.Run.Retries
	default:
		return "", 0
	}
}

// Build waits for artifacts, runs a manifest that makes them, or builds a group of packages.
type Build struct {
	Artifacts []string `json:"artifacts"`
	Group     string   `json:"group,omitempty"`    // path of the packages; "" is none
	Packages  []string `json:"packages,omitempty"` // of the group, whose artifacts later stages get; none are all
	Manifest  string   `json:"manifest,omitempty"` // "": somebody else builds, and records what was received
	Retries   int      `json:"retries,omitempty"`
	Timeout   Duration `json:"timeout,omitempty"` // of each try of the manifest, or of the group; without one, for the artifacts, from the start of the stage; 0 is none
}

// Elsewhere reports whether somebody else builds, whose artifacts are waited for.
func (b *Build) Elsewhere() bool { return b != nil && b.Manifest == "" && b.Group == "" }

// Duration is written as people do: "5m", "1m30s".
type Duration = duration.Duration

// Deploy brings the steps to every host of every group.
type Deploy struct {
	HostGroups []HostGroup `json:"host_groups"`
	Steps      []HostStep  `json:"steps"`
}

// HostGroup is the hosts that a query selects at any moment.
type HostGroup struct {
	Name       string         `json:"name"`
	Hosts      string         `json:"hosts"` // query over the inventory
	MaxFailed  budget.Budget  `json:"max_failed,omitzero"`
	MaxLeaving *budget.Budget `json:"max_leaving,omitempty"` // how many may leave at once; nil is half of them
	AllowEmpty bool           `json:"allow_empty,omitempty"` // it may have no host

	MaxInFlight *budget.Budget `json:"max_in_flight,omitempty"` // hosts on which steps are under way at once; nil is all
}

// MostInFlight is on how many of so many hosts steps may be under way at once. A
// percentage lets one begin at least.
func (g *HostGroup) MostInFlight(hosts int) int {
	if g.MaxInFlight == nil {
		return hosts
	}
	return max(1, g.MaxInFlight.Of(hosts))
}

// MostLeaving is how many of so many hosts may leave at once. A percentage lets one
// go at least, so that groups of a few hosts can shrink.
func (g *HostGroup) MostLeaving(hosts int) int {
	most := budget.Budget{Percent: 50}
	if g.MaxLeaving != nil {
		most = *g.MaxLeaving
	}
	if n := most.Of(hosts); n > 0 || most.Percent == 0 {
		return n
	}
	return 1
}

// HostStep is one step on each host: a manifest, and the event that records that it
// was applied.
type HostStep struct {
	Event    string   `json:"event"`
	Manifest string   `json:"manifest"`
	Retries  int      `json:"retries,omitempty"`
	Timeout  Duration `json:"timeout,omitempty"` // of each try; 0 is none
	Prune    *bool    `json:"prune,omitempty"`   // whether to remove what the step made and no longer declares; nil is true
}

// Keeps reports whether what the step made stays on its hosts when its manifest no longer declares it.
func (s *HostStep) Keeps() bool { return s.Prune != nil && !*s.Prune }

// Run applies one manifest, once.
type Run struct {
	Manifest string   `json:"manifest"`
	Retries  int      `json:"retries,omitempty"`
	Timeout  Duration `json:"timeout,omitempty"` // of each try; 0 is none
}

// Approval waits for people, or keys, to approve.
type Approval struct {
	Approvals int      `json:"approvals,omitempty"` // by different identities; 0 is 1
	Expires   Duration `json:"expires,omitempty"`   // how long it is waited for them; 0 is without end
}

// Batch lets one revision at a time into the stages from From to To.
type Batch struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Manifests calls visit with every manifest of the definition and its stage; visit
// may change the path.
func (d *Definition) Manifests(visit func(stage string, path *string)) {
	for i := range d.Stages {
		s := &d.Stages[i]
		switch {
		case s.Build != nil && s.Build.Manifest != "":
			visit(s.Name, &s.Build.Manifest)
		case s.Run != nil:
			visit(s.Name, &s.Run.Manifest)
		case s.Deploy != nil:
			for j := range s.Deploy.Steps {
				visit(s.Name, &s.Deploy.Steps[j].Manifest)
			}
		}
	}
}

// BuildGroups calls visit with the path of each group of packages, which is no manifest,
// and its stage; visit may change the path.
func (d *Definition) BuildGroups(visit func(stage string, path *string)) {
	for i := range d.Stages {
		if s := &d.Stages[i]; s.Build != nil && s.Build.Group != "" {
			visit(s.Name, &s.Build.Group)
		}
	}
}

// EventNames are the names of the events that only a pipeline of this
// definition has.
func (d *Definition) EventNames() (names []string) {
	for _, s := range d.Stages {
		if s.Build != nil {
			for _, kind := range s.Build.Artifacts {
				names = append(names, ArtifactReceived(kind), ArtifactFailed(kind))
			}
		}
		if s.Deploy != nil {
			for _, step := range s.Deploy.Steps {
				names = append(names, step.Event)
			}
		}
	}
	return names
}

// ArtifactReceived is the event of an artifact of a kind.
func ArtifactReceived(kind string) string { return artifactBefore + kind + artifactAfter }

// ArtifactFailed is the event of an artifact of a kind that was not built.
func ArtifactFailed(kind string) string { return ArtifactReceived(kind) + "-failed" }

// ArtifactKind is the kind of artifact whose event it is.
func ArtifactKind(event string) (kind string, ok bool) {
	kind, ok = strings.CutPrefix(event, artifactBefore)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(kind, artifactAfter)
}

const (
	artifactBefore = "build-stage-received-"
	artifactAfter  = "-artifact"
)

// Path is the name of a stage or host group below its pipeline's, unless it is below it
// already: people write both "beta" and "ant-gateway/beta".
func Path(pipeline, name string) string {
	if strings.HasPrefix(name, pipeline+"/") {
		return name
	}
	return pipeline + "/" + name
}

// Groups are all host groups, in the order of the stages.
func (d *Definition) Groups() []*HostGroup {
	var groups []*HostGroup
	for i := range d.Stages {
		if deploy := d.Stages[i].Deploy; deploy != nil {
			for g := range deploy.HostGroups {
				groups = append(groups, &deploy.HostGroups[g])
			}
		}
	}
	return groups
}

// Refuses is why a group that has some hosts does not take over those that its query selects
// now; "" if it does.
func (g *HostGroup) Refuses(present, selected []string) string {
	const named = 5
	switch {
	case len(present) == 0:
		return ""
	case len(selected) == 0 && g.AllowEmpty:
		return ""
	case len(selected) == 0:
		return fmt.Sprintf("none of its %s is left", phrase.Count(len(present), "host"))
	}
	stays := make(map[string]bool, len(selected))
	for _, host := range selected {
		stays[host] = true
	}
	var leaving []string
	for _, host := range present {
		if !stays[host] {
			leaving = append(leaving, host)
		}
	}
	most := g.MostLeaving(len(present))
	if len(leaving) <= most {
		return ""
	}
	return fmt.Sprintf("%d of %s would leave it at once, and max_leaving lets %d go: %s",
		len(leaving), phrase.Count(len(present), "host"), most, phrase.First(leaving, named))
}
