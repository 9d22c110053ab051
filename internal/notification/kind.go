package notification

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	buildrecord "github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	envrecord "github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Kind is what is told.
type Kind string

// The kinds.
const (
	Waits    Kind = "waits-for-approval"
	Failed   Kind = "failed"
	Stuck    Kind = "stuck"
	Finished Kind = "finished"
	Drifted  Kind = "drifted"
	Held     Kind = "held" // paused by somebody, or kept because too many hosts would leave
)

// words are how a kind is told.
var words = map[Kind]string{
	Waits: "waits for approval", Failed: "has failed", Stuck: "is stuck", Finished: "has finished", Drifted: "has drifted", Held: "is held",
}

func kinds() (all []string) {
	for k := range maps.Keys(words) {
		all = append(all, string(k))
	}
	slices.Sort(all)
	return all
}

// of are the kinds of events that are told whatever else is in the log.
var of = map[string]Kind{
	promotion.Waiting:     Waits,
	record.PipelineFailed: Failed, envrecord.BakeFailed: Failed, buildrecord.GroupFailed: Failed, record.StageRejected: Failed, promotion.Rejected: Failed, promotion.VerifyFailed: Failed,
	envrecord.EnvironmentStuck: Stuck, buildrecord.GroupStalled: Stuck,
	record.PipelineFinished: Finished, promotion.RunFinished: Finished, envrecord.EnvironmentFinished: Finished, buildrecord.GroupFinished: Finished,
	envrecord.TaskDrifted: Drifted,
	record.PipelinePaused: Held, promotion.Held: Held, promotion.RolledBackHolds: Held, promotion.LineStopped: Held, record.StagePaused: Held, envrecord.EnvironmentPaused: Held, record.MembersHeld: Held, envrecord.HostsHeld: Held,
}

// Approvals reports whether a stage is one that waits for approval.
type Approvals func(stage deploylog.Target) (bool, error)

// KindOf is what an event is told as; "" when it is not. byStage is that only rules tell of it
// that name stages: others tell of the pipeline, which finishes or fails with its stages.
func KindOf(e deploylog.Event, approvals Approvals) (k Kind, byStage bool, err error) {
	switch e.Name {
	case record.StageStarted:
		waits, err := approvals(e.Target)
		if waits || err != nil {
			return Waits, false, err
		}
	case record.StageFinished:
		return Finished, true, nil
	case record.StageFailed:
		p := promotion.PayloadOf(e)
		if p.SupersededBy != "" {
			return "", false, nil
		}
		// With a try to promote a revision to an environment no pipeline fails.
		return Failed, p.Environment == "", nil
	}
	return of[e.Name], false, nil
}

// stages are the targets of a rule that are of stages.
const stages = "stage/"

// tells reports whether a rule tells of an event.
func (r Rule) tells(e deploylog.Event, approvals Approvals) (bool, error) {
	k, byStage, err := KindOf(e, approvals)
	if err != nil || k == "" || !slices.Contains(r.On, k) {
		return false, err
	}
	return len(r.Of) == 0 && !byStage || slices.ContainsFunc(r.Of, func(of string) bool {
		return concerns(of, e.Target) && (!byStage || strings.HasPrefix(of, stages))
	}), nil
}

// concerns reports whether a target is what a rule names, or a part of it.
func concerns(of string, t deploylog.Target) bool {
	names := []string{string(t)}
	if name, ok := record.NameOf(t); ok {
		names = append(names, string(record.Target(name)))
	}
	if name, ok := envrecord.NameOf(t); ok {
		names = append(names, string(envrecord.Target(name)))
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return name == of || strings.HasSuffix(of, "/") && strings.HasPrefix(name, of)
	})
}

// Message is what is told, as it is sent.
type Message struct {
	Version    int       `json:"version"` // of the form of the message: 1
	ID         string    `json:"id"`      // the same whenever the same is told again
	Rule       string    `json:"rule"`
	On         Kind      `json:"on"`
	Text       string    `json:"text"` // for people, one line
	Target     string    `json:"target"`
	Revision   string    `json:"revision,omitempty"`
	Deployment string    `json:"deployment"`
	Event      string    `json:"event"`
	Seq        int64     `json:"seq"`
	At         time.Time `json:"at"`
	Cause      string    `json:"cause,omitempty"`
}

// message is what a rule tells of an event.
func (r Rule) message(log string, e deploylog.Event, k Kind) Message {
	m := Message{
		Version: 1, ID: fmt.Sprintf("%s-%d", log, e.Seq), Rule: r.Name, On: k, Target: string(e.Target), Revision: e.Revision, Deployment: e.Deployment,
		Event: e.Name, Seq: e.Seq, At: e.CreatedAt, Cause: cause(e),
	}
	m.Text = m.Target
	if e.Revision != "" {
		m.Text += ": revision " + e.Revision
	}
	if e.Name == promotion.VerifyFailed {
		m.Text += " could not be verified, try " + strconv.Itoa(e.Attempt)
	} else {
		m.Text += " " + words[k]
	}
	if m.Cause != "" {
		m.Text += ": " + m.Cause
	}
	m.Text = clean(m.Text)
	return m
}

// cause is why something happened, as it was recorded.
func cause(e deploylog.Event) string {
	switch e.Name {
	case promotion.Held, promotion.LineStopped, promotion.Rejected:
		return promotion.PayloadOf(e).Reason
	}
	if _, ok := record.NameOf(e.Target); ok {
		return record.Cause(e)
	}
	if _, ok := envrecord.NameOf(e.Target); ok {
		return envrecord.Cause(e)
	}
	return buildrecord.Cause(e)
}

// mostLine is how long a text for people is, in runes.
const mostLine = 1000

// clean makes one line of a text that others wrote.
func clean(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' }), " ")
	if runes := []rune(text); len(runes) > mostLine {
		text = string(runes[:mostLine]) + "…"
	}
	return text
}
