package promotion

import (
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// Reason says why a stage is as it is.
type Reason struct {
	Code        Code             `json:"reason"`
	Target      deploylog.Target `json:"target"`
	Stage       string           `json:"stage"`
	Environment string           `json:"environment"`
	Revision    string           `json:"revision,omitempty"`
	Event       int64            `json:"event,omitempty"` // that is responsible
	Until       time.Time        `json:"until,omitzero"`
	Message     string           `json:"message"`
	Change      string           `json:"change,omitempty"` // what would change it; "" of what is as it should be

	Approval *approval.Standing `json:"approval,omitempty"` // of what waits for it
}

// Blocking reports whether somebody, or time, has to do something about it.
func (r Reason) Blocking() bool {
	switch r.Code {
	case IsCurrent, There, Promoting, Ready, AwaitsStage:
		return false
	default:
		return true
	}
}

// Explain returns what is so at a stage and why; at all of them where the target is the
// pipeline. It is made of the verdicts by which Decide yields steps or does not.
func (s *State) Explain(t deploylog.Target, o Observed, now time.Time) (reasons []Reason) {
	for _, v := range s.verdicts(o, now) {
		if r := s.reason(v, now); t == Target(s.name) || t == r.Target {
			reasons = append(reasons, r)
		}
	}
	return reasons
}

// reason puts a verdict into words.
func (s *State) reason(v verdict, now time.Time) Reason {
	stage := s.definition.Stages[v.stage]
	r := Reason{Code: v.code, Target: StageTarget(s.name, stage.Name), Stage: stage.Name, Environment: stage.Environment, Revision: v.revision, Event: v.seq, Until: v.until}
	switch v.code {
	case Verifies:
		r.Message, r.Change = s.verificationWords(v, stage.Verify)
		r.Message = "runs revision " + v.revision + ", and " + r.Message
	case AwaitsVerified:
		r.Message, r.Change = s.verificationWords(v, s.definition.Stages[v.stage-1].Verify)
		r.Message = fmt.Sprintf("revision %s waits for stage %s, which %s", v.revision, v.name, r.Message)
	case AwaitsApproval:
		standing := s.standing(&stage, v, now)
		r.Approval = &standing
		r.Message, r.Change = s.approvalWords(v, &stage, standing)
	default:
		r.Message, r.Change = s.words(v, stage)
	}
	if v.code == Unobserved && !v.since.IsZero() {
		r.Message += "; that is so since " + phrase.Moment(v.since)
	}
	if v.code == Unobserved && v.try > 0 {
		r.Message += fmt.Sprintf("; so what becomes of try %d of promoting revision %s there is not known, either", v.try, v.name)
	}
	if len(v.suspended) > 0 {
		r.Message += fmt.Sprintf("; %s %s suspended, and stays as it is until somebody resumes or syncs it", phrase.First(v.suspended, mostHostsNamed), map[bool]string{true: "is", false: "are"}[len(v.suspended) == 1])
	}
	if v.seq > 0 {
		r.Message += fmt.Sprintf(" (event %d)", v.seq)
	}
	return r
}

func after(text, sign string) string {
	if text == "" {
		return ""
	}
	return sign + text
}

// mergedWords says what a promotion waits for whose pull request is merged.
func (v verdict) mergedWords(place string) string {
	if v.merged.IsZero() {
		return ""
	}
	return fmt.Sprintf(": it is merged since %s, and %s does not run it as a whole yet%s", phrase.Moment(v.merged), place, after(v.cause, ": "))
}

// words are what there is to say of a verdict, and what would change it.
func (s *State) words(v verdict, stage definition.Stage) (message, change string) {
	by := after(v.by, " by ") + after(v.cause, ": ")
	next, until := "revision "+v.revision, phrase.Moment(v.until)
	look, place := s.look(stage), definition.PlaceText(stage.Environment)
	switch v.code {
	case IsCurrent:
		return next + " is current", ""
	case Settling:
		return fmt.Sprintf("revision %s is current when it has run for %s", v.revision, s.definition.Promotion.SettleFor), "at " + until
	case Unobserved:
		return fmt.Sprintf("what %s runs is not known: %s", place, v.cause), look
	case Unhealthy:
		return fmt.Sprintf("%s does not run one revision, healthy, as a whole: %s", place, v.cause), look
	case There:
		return "runs " + next, ""
	case Promoting:
		return fmt.Sprintf("revision %s is being promoted, try %d", v.revision, v.try) + v.mergedWords(place), look
	case AwaitsMerge:
		return fmt.Sprintf("revision %s is proposed, and waits to be merged: %s", v.revision, v.cause), "somebody merges or closes it"
	case IsDeclined:
		return fmt.Sprintf("revision %s was declined: %s", v.revision, v.cause), fmt.Sprintf("another revision, or deployster pipeline release-hold %s %s, which proposes it again", s.name, stage.Name)
	case Arriving:
		return fmt.Sprintf("some of %s runs revision %s: %s", place, v.revision, v.cause), "all of it runs it, or none: " + look
	case AwaitsPromotion:
		return fmt.Sprintf("revision %s waits for the end of the promotion of revision %s", v.revision, v.name), "that promotion ends: " + look
	case WasPromoted:
		return s.promotedWords(v, stage)
	case IsStopped:
		return "the line is stopped" + by, "deployster pipeline resume " + s.name
	case IsHeld:
		return "held" + by, fmt.Sprintf("deployster pipeline release-hold %s %s", s.name, stage.Name)
	case IsRolledBack:
		return fmt.Sprintf("environment %s was rolled back%s, which holds", stage.Environment, by), fmt.Sprintf("deployster pipeline release-hold %s %s", s.name, stage.Name)
	case AwaitsSoak, AwaitsProof:
		return s.proofWords(v)
	case IsRejected:
		return fmt.Sprintf("revision %s was rejected%s", v.revision, by), fmt.Sprintf("another revision, or deployster pipeline release-hold %s %s, which asks for approval again", s.name, stage.Name)
	case AwaitsWindow, AwaitsFreeze:
		return v.windowWords()
	case AwaitsRetry:
		return fmt.Sprintf("try %d of promoting revision %s failed: %s", v.try, v.revision, v.cause), "it is tried again at " + until
	case Ready:
		return fmt.Sprintf("revision %s is to be promoted", v.revision), "deployster pipeline run " + s.name
	default:
		return "waits for stage " + v.name, "stage " + v.name + " runs the revision, healthy, as a whole"
	}
}

// proofWords are those of a revision that soaks, or that waits until the stage has proven the one before.
func (s *State) proofWords(v verdict) (message, change string) {
	if v.code == AwaitsSoak {
		return fmt.Sprintf("revision %s soaks in stage %s", v.revision, v.name), "at " + phrase.Moment(v.until)
	}
	change = "deployster pipeline explain " + s.name
	if !v.until.IsZero() {
		change = "at " + phrase.Moment(v.until)
	}
	return fmt.Sprintf("revision %s waits: the stage keeps revision %s until that %s", v.revision, v.name, v.cause), change
}

// look is the command that shows what a stage runs.
func (s *State) look(stage definition.Stage) string {
	if stage.Sighted() {
		return "deployster pipeline status " + s.name
	}
	return "deployster env status " + stage.Environment
}

// promotedWords are those of a verdict of which the revision was there before.
func (s *State) promotedWords(v verdict, stage definition.Stage) (message, change string) {
	change = fmt.Sprintf("another revision, or deployster pipeline release-hold %s %s, which promotes it again", s.name, stage.Name)
	if stage.Sighted() {
		return fmt.Sprintf("revision %s was promoted, and does not run there any more%s", v.revision, after(v.cause, ": ")), "that it runs there again, " + change
	}
	return fmt.Sprintf("revision %s was promoted, and somebody has deployed another one since", v.revision), change
}

// windowWords are those of a verdict that waits for a time.
func (v verdict) windowWords() (message, change string) {
	what := "no window is open"
	if v.code == AwaitsFreeze {
		what = "there is a freeze" + after(v.cause, ": ")
	}
	message = fmt.Sprintf("revision %s waits: %s", v.revision, what)
	if v.until.IsZero() {
		return message, "another definition: none opens within two years"
	}
	return message, "at " + phrase.Moment(v.until)
}

// Report is the status of a pipeline at one moment.
type Report struct {
	Pipeline  string            `json:"pipeline"`
	Policy    definition.Policy `json:"policy"`
	Event     int64             `json:"event"`
	Revision  string            `json:"revision,omitempty"` // the current one
	Run       *Run              `json:"run,omitempty"`
	Stopped   *Hold             `json:"stopped,omitempty"`
	Stages    []StageReport     `json:"stages"`
	Completed string            `json:"deployed,omitempty"` // revision that the last stage runs as a whole
}

// StageReport is the status of a stage.
type StageReport struct {
	Stage       string        `json:"stage"`
	Environment string        `json:"environment"`
	Runs        []string      `json:"runs"` // revisions
	Health      Health        `json:"health"`
	Why         string        `json:"why,omitempty"`
	Since       time.Time     `json:"since,omitzero"` // that it runs one revision as a whole, or is unknown
	Hold        *Hold         `json:"hold,omitempty"`
	Promotion   *Promotion    `json:"promotion,omitempty"`    // the last
	Verifying   *Verification `json:"verification,omitempty"` // the last
	Reason      Reason        `json:"reason"`

	Manifest string         `json:"manifest,omitempty"` // of a stage on hosts
	Hosts    []HostSighting `json:"hosts,omitempty"`    // of such a stage, as they were seen

	Objects []ObjectReport `json:"objects,omitempty"` // in clusters, of a stage that is these
}

// ObjectReport is what an object of a cluster was seen to run.
type ObjectReport struct {
	Object   string `json:"object"`
	Revision string `json:"revision,omitempty"`
	Health   Health `json:"health"`
	Why      string `json:"why,omitempty"`

	Suspended bool `json:"suspended,omitempty"` // its controller leaves it as it is
}

// objects are those of a stage, also those that were not seen yet.
func (s *State) objects(stage *definition.Stage) (all []ObjectReport) {
	seen := s.hostsSeen(stage.Name)
	for i := range stage.Objects {
		row := ObjectReport{Object: stage.Objects[i].String(), Health: Unknown, Why: "it was not observed yet"}
		for _, h := range seen {
			if h.Host != row.Object {
				continue
			}
			row.Revision, row.Health, row.Why, row.Suspended = h.Revision, Whole, h.Why, h.Suspended
			if h.Suspended && h.Why == "" {
				row.Why = "it is suspended"
			}
			if h.Unhealthy || h.Revision == "" {
				row.Health = Partly
			}
			if h.Unknown {
				row.Health = Unknown
			}
		}
		all = append(all, row)
	}
	return all
}

// Report returns the status of the pipeline.
func (s *State) Report(o Observed, now time.Time) Report {
	r := Report{Pipeline: s.name, Event: s.head, Stages: []StageReport{}, Stopped: s.stopped}
	if s.definition == nil {
		return r
	}
	r.Policy = s.definition.Promotion.Policy
	if run := s.Current(); run != nil && r.Policy == definition.Single {
		copied := *run
		r.Run, r.Revision = &copied, run.Revision
	}
	for i, v := range s.verdicts(o, now) {
		stage := s.definition.Stages[i]
		seen := o.of(stage.Environment)
		row := StageReport{Stage: stage.Name, Environment: stage.Environment, Runs: slices.Clone(seen.Runs), Health: seen.Health, Why: seen.Why, Hold: s.HoldOf(stage.Name, o), Reason: s.reason(v, now)}
		if seen.Health == Unknown {
			row.Since = seen.Unknown
		}
		if seen.Health == Whole {
			row.Runs, row.Since = []string{seen.Revision}, seen.Since
			if i == len(s.definition.Stages)-1 {
				r.Completed = seen.Revision
			}
		}
		if row.Runs == nil {
			row.Runs = []string{}
		}
		if p := s.last[stage.Name]; p != nil {
			copied := *p
			row.Promotion = &copied
		}
		if stage.Targets != nil {
			row.Manifest, row.Hosts = stage.Targets.Manifest, s.hostsSeen(stage.Name)
		}
		row.Objects = s.objects(&stage)
		if of := s.verifications[stage.Name]; of != nil {
			copied := *of
			row.Verifying = &copied
		}
		r.Stages = append(r.Stages, row)
	}
	return r
}

// Promotions are all there were, in order. They must not be changed.
func (s *State) Promotions() []*Promotion { return s.promotions }

// Runs are the revisions that were current, in order. They must not be changed.
func (s *State) Runs() []*Run { return s.runs }
