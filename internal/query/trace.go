package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	buildrecord "github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/promotion"
	promotiondefinition "github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// Trace is the way of one revision through one pipeline, as the log has it.
type Trace struct {
	Pipeline  string            `json:"pipeline"`
	Revision  string            `json:"revision"`
	Promoted  bool              `json:"promoted"` // by observed state; otherwise it was released
	Status    string            `json:"status"`
	Released  time.Time         `json:"released_at,omitzero"` // or first seen
	By        string            `json:"released_by,omitempty"`
	Ended     time.Time         `json:"ended_at,omitzero"`
	Commits   []TracedCommit    `json:"commits"`
	Artifacts map[string]string `json:"artifacts,omitempty"` // references, by kind
	Inputs    []upstream.Input  `json:"inputs,omitempty"`
	Stages    []TracedStage     `json:"stages"`
}

// TracedCommit is a commit of which something of the revision was built.
type TracedCommit struct {
	Repository string `json:"repository,omitempty"`
	Commit     string `json:"commit"`
	Exact      bool   `json:"exact"`           // all files were those of the commit
	Group      string `json:"group,omitempty"` // build group; "" is that the revision is the commit
	By         string `json:"by,omitempty"`
}

// TracedStage is what became of the revision in one stage.
type TracedStage struct {
	Stage       string           `json:"stage"`
	Status      string           `json:"status"`             // pending, running, finished, failed, declined, cancelled, skipped or superseded
	Began       time.Time        `json:"began_at,omitzero"`  // its deployment, or the first try of its promotion
	Seen        time.Time        `json:"seen_at,omitzero"`   // the stage runs it
	Left        time.Time        `json:"left_at,omitzero"`   // the stage runs another one
	TookMS      int64            `json:"took_ms,omitempty"`  // from its beginning until it was seen
	StayedMS    int64            `json:"in_ms,omitempty"`    // from then until it left, or until now
	Attempts    int              `json:"attempts,omitempty"` // of a promotion, or retries that reached the stage
	Approvals   []TracedApproval `json:"approvals,omitempty"`
	PullRequest string           `json:"pull_request,omitempty"`
	Merged      time.Time        `json:"merged_at,omitzero"`
	Cause       string           `json:"error,omitempty"`
	Event       int64            `json:"event,omitempty"` // the last that changed it

	next     time.Time // its first beginning since the stage was seen to run it
	proposes bool      // its promotion is by pull request
}

// TracedApproval is by whom the revision was approved, or rejected, at the stage.
type TracedApproval struct {
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	Event    int64     `json:"event"`
	Reason   string    `json:"reason,omitempty"`
	Rejected bool      `json:"rejected,omitempty"`
}

// Traces is folded from all events of a log. The zero value knows nothing.
type Traces struct {
	pipelines map[string]*traced
	sources   map[string]TracedCommit // by the digest, or the reference, of what was built
	groups    map[string]TracedCommit // by the target of the group
	times     map[int64]time.Time     // of events by which a stage came to run a revision
}

// traced is one pipeline.
type traced struct {
	stages   []string // of its last definition, in order
	promotes bool     // it promotes by observed state
	order    []*Trace
	byName   map[string]*Trace
	of       map[string]*Trace // by deployment
	alone    map[string]string // stage that a deployment does alone: a rollback, rerun or repair
	runs     map[string]*Trace // by stage: what it runs
	coming   map[string]*Trace // by stage: what is promoted there, or was last
}

// Apply folds in an event.
func (t *Traces) Apply(e deploylog.Event) {
	if t.pipelines == nil {
		*t = Traces{pipelines: map[string]*traced{}, sources: map[string]TracedCommit{}, groups: map[string]TracedCommit{}, times: map[int64]time.Time{}}
	}
	switch e.Target.Kind() {
	case "environment", "task":
		t.times[e.Seq] = e.CreatedAt
		return
	case buildrecord.GroupKind, buildrecord.JobKind:
		t.applyBuild(e)
		return
	case "pipeline", "stage":
	default:
		return
	}
	t.times[e.Seq] = e.CreatedAt
	name, ok := record.NameOf(e.Target)
	if !ok {
		return
	}
	if e.Name == record.PipelineDeleted || e.Name == promotion.PipelineDeleted {
		delete(t.pipelines, name) // a later pipeline of that name begins anew
		return
	}
	p := t.pipelines[name]
	if p == nil {
		p = &traced{byName: map[string]*Trace{}, of: map[string]*Trace{}, alone: map[string]string{}, runs: map[string]*Trace{}, coming: map[string]*Trace{}}
		t.pipelines[name] = p
	}
	stage := strings.TrimPrefix(string(e.Target), string(record.StageTarget(name, "")))
	switch {
	case e.Name == record.PipelineDefined:
		p.promotes = false
		p.define(record.Read(e.Data).Definition, name)
	case e.Name == promotion.PipelineDefined:
		if d := promotion.PayloadOf(e).Definition; d != nil {
			p.promotes, p.stages = true, nil
			for i := range d.Stages {
				p.stages = append(p.stages, d.Stages[i].Name)
			}
		}
	case p.promotes:
		t.applyPromotion(name, p, stage, e)
	default:
		p.applyReleased(name, stage, e)
	}
}

func (p *traced) define(d *definition.Definition, name string) {
	if d == nil {
		return
	}
	p.stages = nil
	for i := range d.Stages {
		p.stages = append(p.stages, strings.TrimPrefix(d.Stages[i].Name, name+"/"))
	}
}

// revision returns the trace of a revision, which begins with this event.
func (p *traced) revision(name string, e deploylog.Event, promoted bool) *Trace {
	of := p.byName[e.Revision]
	if of == nil || of.Promoted != promoted {
		of = &Trace{Pipeline: name, Revision: e.Revision, Promoted: promoted, Status: "running", Released: e.CreatedAt, Commits: []TracedCommit{}}
		p.byName[e.Revision], p.order = of, append(p.order, of)
	}
	p.of[e.Deployment] = of
	return of
}

// stage returns what became of a revision in a stage.
func (r *Trace) stage(name string) *TracedStage {
	for i := range r.Stages {
		if r.Stages[i].Stage == name {
			return &r.Stages[i]
		}
	}
	r.Stages = append(r.Stages, TracedStage{Stage: name, Status: "pending"})
	return &r.Stages[len(r.Stages)-1]
}

// arrive notes that a stage runs a revision.
func (p *traced) arrive(of *Trace, stage string, at time.Time, seq int64) {
	if before := p.runs[stage]; before != of {
		if before != nil {
			s := before.stage(stage)
			if s.Left = at; s.Status != "running" {
				s.next = time.Time{}
			}
		}
		p.runs[stage] = of
	}
	s := of.stage(stage)
	s.Status, s.Cause, s.Event = "finished", "", max(s.Event, seq)
	switch {
	case s.Seen.IsZero():
		s.Seen = at
	case !s.Left.IsZero(): // another revision was there between
		s.Began, s.Seen, s.Left = s.next, at, time.Time{}
	}
	s.next = time.Time{}
}

// stop notes that a deployment of this stage alone was canceled or superseded. The
// stage then has the status that it had before.
func (s *TracedStage) stop(e deploylog.Event) {
	switch e.Name {
	case record.PipelineCancelled, record.PipelineSkipped, record.PipelineSuperseded:
	default:
		return
	}
	switch {
	case s.Status != "running":
	case s.Cause != "":
		s.Status = "failed"
	case !s.Seen.IsZero():
		s.Status = "finished"
	default:
		s.Status = "pending"
	}
}

// supersede notes that a newer revision took the place of one that was on its way to the stage.
func (s *TracedStage) supersede(seq int64) {
	if s.Status == "running" || s.Status == "failed" {
		s.Status, s.Event = "superseded", max(s.Event, seq)
	}
}

// returned reports whether a revision that a stage had left came there again at a time.
func (p *traced) returned(of *Trace, stage string, at time.Time) bool {
	now := p.runs[stage]
	return now != nil && now != of && at.After(of.stage(stage).Left) && at.After(now.stage(stage).Seen)
}

// begin notes that a deployment or promotion of the revision begins in the stage.
func (s *TracedStage) begin(at time.Time) {
	s.Status, s.Attempts = "running", s.Attempts+1
	switch {
	case s.Seen.IsZero() && s.Began.IsZero():
		s.Began = at
	case !s.Seen.IsZero() && s.next.IsZero():
		s.next = at
	}
}

func (p *traced) applyReleased(name, stage string, e deploylog.Event) {
	data := record.Read(e.Data)
	if e.Name == record.PipelineStarted {
		of, stages := p.revision(name, e, false), string(record.StageTarget(name, ""))
		switch {
		case data.Rollback != nil:
			p.alone[e.Deployment] = strings.TrimPrefix(string(data.Rollback.Target), stages)
		case data.Redo != nil:
			p.alone[e.Deployment] = strings.TrimPrefix(string(data.Redo.Target), stages)
		default:
			of.By, of.Inputs = data.By, data.Takes
		}
		return
	}
	of := p.of[e.Deployment]
	if e.Name == record.StageApprovalGiven {
		of = p.byName[e.Revision]
	}
	if of == nil {
		return
	}
	if kind, is := definition.ArtifactKind(e.Name); is {
		of.artifact(kind, data.Ref)
		return
	}
	if e.Target.Kind() == "pipeline" {
		if only, alone := p.alone[e.Deployment]; alone {
			of.stage(only).stop(e)
		} else {
			of.ended(e)
		}
		return
	}
	s := of.stage(stage)
	switch e.Name {
	case record.StageStarted:
		s.begin(e.CreatedAt)
	case record.StageFinished:
		p.arrive(of, stage, e.CreatedAt, e.Seq)
	case record.StageFailed:
		s.Status, s.Cause = "failed", record.Cause(e)
	case record.StageApproved, record.StageApprovalGiven, record.StageRejected:
		if data.By == "" { // a scheduler: there were enough once fewer were needed
			break
		}
		s.Approvals = append(s.Approvals, TracedApproval{By: data.By, At: e.CreatedAt, Event: e.Seq, Reason: data.Reason, Rejected: e.Name == record.StageRejected})
	case record.StageBuilt:
		for kind, ref := range data.Artifacts {
			of.artifact(kind, ref)
		}
	default:
		return
	}
	s.Event = max(s.Event, e.Seq)
}

func (r *Trace) artifact(kind, ref string) {
	if ref == "" {
		return
	}
	if r.Artifacts == nil {
		r.Artifacts = map[string]string{}
	}
	r.Artifacts[kind] = ref
}

func (r *Trace) ended(e deploylog.Event) {
	status, is := map[string]string{
		record.PipelineFinished: "finished", record.PipelineFailed: "failed", record.PipelineCancelled: "cancelled",
		record.PipelineSkipped: "skipped", record.PipelineSuperseded: "superseded", record.PipelineRetried: "running",
		record.EndRequested: record.Read(e.Data).Ends,
	}[e.Name]
	if !is {
		return
	}
	for i := range r.Stages { // a stage that was under way ends with the revision, and goes on with a retry
		if s := &r.Stages[i]; s.Status == "running" || status == "running" && s.Status == r.Status {
			s.Status, s.Event = status, max(s.Event, e.Seq)
		}
	}
	if e.Name == record.EndRequested { // stages with when run before it ends
		return
	}
	r.Status, r.Ended = status, e.CreatedAt
	if status == "running" {
		r.Ended = time.Time{}
	}
}

func (t *Traces) applyPromotion(name string, p *traced, stage string, e deploylog.Event) {
	data := promotion.PayloadOf(e)
	switch e.Name {
	case promotion.RunStarted, promotion.StageStarted:
		of := p.revision(name, e, true)
		if came, known := t.times[data.Came]; known {
			p.takeFrom(of, data, stage, came)
		}
		if e.Name == promotion.RunStarted {
			return
		}
		if before := p.coming[stage]; before != nil && before != of {
			before.stage(stage).supersede(e.Seq)
		}
		p.coming[stage] = of
		s := of.stage(stage)
		s.begin(e.CreatedAt)
		s.Event, s.proposes = e.Seq, data.Strategy == string(promotiondefinition.WithPullRequest)
		return
	case promotion.Approved, promotion.Rejected:
		s := p.revision(name, e, true).stage(stage)
		s.Approvals = append(s.Approvals, TracedApproval{By: data.By, At: e.CreatedAt, Event: e.Seq, Reason: data.Reason, Rejected: e.Name == promotion.Rejected})
		return
	case promotion.HostsObserved:
		p.observed(name, stage, e, data.Observed)
		return
	}
	of := p.of[e.Deployment]
	if of == nil || e.Target.Kind() != "stage" {
		return
	}
	s := of.stage(stage)
	switch e.Name {
	case promotion.Triggered:
		if s.proposes && strings.Contains(data.Answer, "://") {
			s.PullRequest = data.Answer
		}
	case promotion.Merged:
		s.Merged = e.CreatedAt
		if s.PullRequest == "" && strings.Contains(data.Answer, "://") {
			s.PullRequest = data.Answer
		}
	case promotion.StageFinished:
		p.arrive(of, stage, e.CreatedAt, e.Seq)
	case promotion.StageFailed:
		s.Status, s.Cause = "failed", data.Cause
		if data.Declined {
			s.Status = "declined"
		}
		if data.SupersededBy != "" {
			s.supersede(e.Seq)
		}
	default:
		return
	}
	s.Event = max(s.Event, e.Seq)
}

// takeFrom notes when a revision came to the stage from which it is promoted to another one.
func (p *traced) takeFrom(of *Trace, data promotion.Payload, to string, came time.Time) {
	from := data.From
	if from == "" && len(p.stages) > 0 {
		from = p.stages[0]
	}
	if from == to {
		return
	}
	if s := of.stage(from); s.Seen.IsZero() || p.returned(of, from, came) {
		p.arrive(of, from, came, data.Came)
	}
	if came.Before(of.Released) {
		of.Released = came
	}
}

// observed notes that all hosts or objects of a stage were seen to run one revision.
func (p *traced) observed(name, stage string, e deploylog.Event, seen *promotion.Sighting) {
	if seen == nil || len(seen.Hosts) == 0 || seen.Hosts[0].Revision == "" {
		return
	}
	for _, h := range seen.Hosts {
		if h.Revision != seen.Hosts[0].Revision || h.Unhealthy || h.Unknown {
			return
		}
	}
	e.Revision = seen.Hosts[0].Revision
	if of := p.runs[stage]; of != nil && of.Revision == e.Revision {
		return
	}
	of := p.byName[e.Revision]
	if of == nil {
		e.Deployment = ""
		of = p.revision(name, e, true)
	}
	p.arrive(of, stage, e.CreatedAt, e.Seq)
}

func (t *Traces) applyBuild(e deploylog.Event) {
	switch e.Name {
	case buildrecord.GroupTriggered:
		data := buildrecord.Decode[buildrecord.Triggered](e)
		c := TracedCommit{Commit: data.Commit, Group: strings.TrimPrefix(string(e.Target), buildrecord.GroupKind+"/"), By: data.By}
		if s := data.Source; s != nil {
			c.Repository, c.Commit, c.Exact = s.Repository, s.Commit, s.Exact
		}
		t.groups[string(e.Target)] = c
		if data.Pipeline != nil && c.Commit != "" {
			if p := t.pipelines[data.Pipeline.Pipeline]; p != nil && p.of[data.Pipeline.Deployment] != nil {
				p.of[data.Pipeline.Deployment].commit(c)
			}
		}
	case buildrecord.JobFinished:
		data := buildrecord.Decode[buildrecord.Finished](e)
		group, _, _ := strings.Cut(strings.TrimPrefix(string(e.Target), buildrecord.JobKind+"/"), "/")
		c := t.groups[string(buildrecord.Group(group))]
		if c.Commit = cmp.Or(c.Commit, data.Commit); c.Commit == "" {
			return
		}
		c.Group = group
		for _, ref := range []string{data.Artifact, data.Pushed} {
			if ref != "" {
				t.sources[digestOf(ref)] = c
			}
		}
	}
}

func (r *Trace) commit(c TracedCommit) {
	if !slices.Contains(r.Commits, c) {
		r.Commits = append(r.Commits, c)
	}
}

// digestOf returns the digest in a reference, or the reference.
func digestOf(ref string) string {
	if i := strings.Index(ref, "sha256:"); i >= 0 {
		return ref[i:]
	}
	return ref
}

// isCommit reports whether a revision is the name of a commit of git.
func isCommit(text string) bool {
	const short, sha1, sha256 = 7, 40, 64
	return (len(text) >= short && len(text) <= sha1 || len(text) == sha256) && strings.Trim(text, "0123456789abcdef") == "" && strings.Trim(text, "0123456789") != ""
}

// Trace returns the ways of a revision through the pipelines, or through one. The text is its
// name, or the beginning of that, of its digest or of a commit of which it was built.
func (t *Traces) Trace(text, pipeline string, now time.Time) ([]Trace, error) {
	if pipeline != "" && t.pipelines[pipeline] == nil {
		near := suggest.Closest(pipeline, slices.Sorted(maps.Keys(t.pipelines)))
		if near != "" {
			near = ", did you mean " + near + "?"
		}
		return nil, unknown("there is no pipeline %q%s", pipeline, near)
	}
	var exact, begins, all []Trace
	for _, name := range slices.Sorted(maps.Keys(t.pipelines)) {
		if pipeline != "" && name != pipeline {
			continue
		}
		for _, r := range t.pipelines[name].order {
			full := t.complete(t.pipelines[name], r, now)
			all = append(all, full)
			switch {
			case full.Revision == text:
				exact = append(exact, full)
			case full.matches(text):
				begins = append(begins, full)
			}
		}
	}
	if len(exact) > 0 {
		return exact, nil
	}
	const most = 5
	switch names := namesOf(begins); {
	case len(names) == 1, len(begins) > 0 && sameCommit(begins, text):
		return begins, nil
	case len(names) > 1:
		return nil, unknown("revision %q is ambiguous: it may be %s", text, phrase.First(candidates(begins), most))
	case len(all) == 0:
		return nil, unknown("there is no revision %q: the log has none", text)
	}
	names := namesOf(all)
	if near := suggest.Closest(text, names); near != "" {
		return nil, unknown("there is no revision %q; did you mean %s?", text, near)
	}
	slices.Reverse(names)
	return nil, unknown("there is no revision %q; the newest are %s", text, phrase.First(names, most))
}

// complete adds what follows from others: the stages that it has not come to, the commits of its
// artifacts, and durations.
func (t *Traces) complete(p *traced, r *Trace, now time.Time) Trace {
	full := *r
	full.Commits, full.Stages = slices.Clone(r.Commits), slices.Clone(r.Stages)
	for _, ref := range append(slices.Sorted(maps.Values(r.Artifacts)), r.Revision) {
		if c, known := t.sources[digestOf(ref)]; known {
			full.commit(c)
		}
	}
	if len(full.Commits) == 0 && isCommit(r.Revision) {
		full.commit(TracedCommit{Commit: r.Revision, Exact: true})
	}
	for _, stage := range p.stages {
		full.stage(stage)
	}
	slices.SortStableFunc(full.Stages, func(a, b TracedStage) int {
		return cmp.Compare(uint(slices.Index(p.stages, a.Stage)), uint(slices.Index(p.stages, b.Stage))) // -1 comes last
	})
	all := len(full.Stages) > 0
	for i := range full.Stages {
		s := &full.Stages[i]
		all = all && !s.Seen.IsZero()
		if s.Seen.IsZero() {
			continue
		}
		if !s.Began.IsZero() {
			s.TookMS = s.Seen.Sub(s.Began).Milliseconds()
		}
		until := s.Left
		if until.IsZero() {
			until = now
		}
		s.StayedMS = max(0, until.Sub(s.Seen).Milliseconds())
	}
	if full.Promoted && all {
		full.Status = "finished"
	}
	return full
}

// matches reports whether the name, the digest or a commit of a revision begins with a text.
func (r *Trace) matches(text string) bool {
	const shortest = 4
	if len(text) < shortest {
		return false
	}
	_, digest, _ := strings.Cut(digestOf(r.Revision), "sha256:")
	return strings.HasPrefix(r.Revision, text) || strings.HasPrefix(digest, text) ||
		slices.ContainsFunc(r.Commits, func(c TracedCommit) bool { return strings.HasPrefix(c.Commit, text) })
}

// sameCommit reports whether a text is the beginning of one commit, of which all were built.
func sameCommit(all []Trace, text string) bool {
	commits := map[string]bool{}
	for _, r := range all {
		of := slices.IndexFunc(r.Commits, func(c TracedCommit) bool { return strings.HasPrefix(c.Commit, text) })
		if of < 0 {
			return false
		}
		commits[r.Commits[of].Commit] = true
	}
	return len(commits) == 1
}

func namesOf(all []Trace) (names []string) {
	for _, r := range all {
		if !slices.Contains(names, r.Revision) {
			names = append(names, r.Revision)
		}
	}
	return names
}

func candidates(all []Trace) (texts []string) {
	for _, r := range all {
		text := r.Revision + " of " + r.Pipeline
		if len(r.Commits) > 0 && r.Commits[0].Commit != r.Revision {
			text += " (commit " + r.Commits[0].Commit + ")"
		}
		texts = append(texts, text)
	}
	return texts
}

// TraceRevision returns the ways of a revision as the log has them right after an event, 0 being
// the newest.
func TraceRevision(ctx context.Context, log deploylog.Log, text, pipeline string, at int64, now time.Time) ([]Trace, error) {
	var t Traces
	for e, err := range log.Read(ctx, deploylog.Filter{Until: at}) {
		if err != nil {
			return nil, fmt.Errorf("reading the events of pipelines: %w", err)
		}
		t.Apply(e)
	}
	return t.Trace(text, pipeline, now)
}
