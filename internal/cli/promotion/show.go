package promotion

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// Status is that of a pipeline, and whether somebody is at work on it.
type Status struct {
	query.PromotionStatus
	past bool
}

// Status is that of a pipeline.
func (l *Levels) Status(name string) (Status, error) {
	s, err := l.Promotions.Status(name)
	return Status{s, l.Past}, err
}

// Print prints the status of a pipeline.
func (r Status) Print(a *app.App) error {
	head := fmt.Sprintf("%s: promotes by observed state, policy %s", r.Pipeline, r.Policy)
	if r.Run != nil {
		head += fmt.Sprintf("; revision %s is current since %s (event %d)", r.Revision, phrase.Moment(r.Run.Started), r.Run.Event)
	}
	rows := [][]string{{"STAGE", "ENVIRONMENT", "RUNS", "HEALTH", "SINCE", "PROMOTION"}}
	var waiting []promotion.Reason
	for _, s := range r.Stages {
		since, last := "", ""
		if !s.Since.IsZero() {
			since = phrase.Moment(s.Since)
		}
		if p := s.Promotion; p != nil {
			last = fmt.Sprintf("%s %s", p.Revision, p.Status)
			if p.Attempt > 1 {
				last += fmt.Sprintf(", try %d", p.Attempt)
			}
		}
		rows = append(rows, []string{s.Stage, s.Environment, output.Dash(view.Several(s.Runs)), string(s.Health), output.Dash(since), output.Dash(last)})
		if s.Reason.Blocking() {
			waiting = append(waiting, s.Reason)
		}
	}
	if err := a.Printf("%s\n", phrase.Plain(head)); err != nil {
		return err
	}
	if err := a.Table("no stages", rows); err != nil {
		return err
	}
	if err := r.printHosts(a); err != nil {
		return err
	}
	for _, w := range waiting {
		if err := printReason(a, w); err != nil {
			return err
		}
	}
	if r.Working || r.past {
		return nil
	}
	return a.Printf("  nobody is at work on it: deployster pipeline run %s\n", r.Pipeline)
}

// printHosts prints what the hosts and objects of stages run that have no environment which does so.
func (r Status) printHosts(a *app.App) error {
	rows := [][]string{{"STAGE", "HOST", "RUNS", "WHY"}}
	for _, s := range r.Stages {
		for _, h := range s.Hosts {
			runs := output.Dash(h.Revision)
			if h.Unknown {
				runs = "unknown"
			}
			rows = append(rows, []string{s.Stage, h.Host, runs, output.Dash(h.Why)})
		}
	}
	if len(rows) > 1 {
		if err := a.Table("no hosts", rows); err != nil {
			return err
		}
	}
	return r.printObjects(a)
}

// printObjects prints what the objects of stages run that are these.
func (r Status) printObjects(a *app.App) error {
	rows := [][]string{{"STAGE", "OBJECT", "RUNS", "HEALTH", "WHY"}}
	for _, s := range r.Stages {
		for _, o := range s.Objects {
			rows = append(rows, []string{s.Stage, o.Object, output.Dash(o.Revision), string(o.Health), output.Dash(o.Why)})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	return a.Table("no objects", rows)
}

func printReason(a *app.App, r promotion.Reason) error {
	text := fmt.Sprintf("  %s  %s\n", phrase.Plain(string(r.Target)), phrase.Plain(r.Message))
	if r.Change != "" {
		text += fmt.Sprintf("      → %s\n", phrase.Plain(r.Change))
	}
	return a.Printf("%s", text)
}

// Explain prints why what is at or below a target is as it is; is is false where the target is
// not of such a pipeline.
func Explain(ctx context.Context, a *app.App, t deploylog.Target, at int64) (is bool, err error) {
	name, ok := promotion.NameOf(t)
	if !ok {
		return false, nil
	}
	return within(ctx, a, name, at, func(l *Levels) error {
		reasons, err := ask(l, name, func(s *promotion.State, o promotion.Observed) []promotion.Reason { return s.Explain(t, o, l.Now()) })
		if err != nil {
			return err
		}
		if len(reasons) == 0 {
			return fmt.Errorf("pipeline %s has nothing called %s: deployster pipeline status %s shows its stages", name, t, name)
		}
		if at == 0 && !l.Working(name) {
			for i := range reasons {
				if reasons[i].Code == promotion.Ready {
					reasons[i].Message += ", and nobody is at work on the pipeline"
				}
			}
		}
		return a.Show(map[string]any{"target": t, "event": l.Head(), "reasons": reasons}, func() error {
			for _, r := range reasons {
				if err := printReason(a, r); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// HistoryRow is a revision that came to a stage, or was to.
type HistoryRow struct {
	promotion.Promotion
	Ended time.Time `json:"ended,omitzero"`
}

// History prints the promotions of a pipeline.
func History(ctx context.Context, a *app.App, name string, at int64, last int) (is bool, err error) {
	return within(ctx, a, name, at, func(l *Levels) error {
		var all []HistoryRow
		var runs []promotion.Run
		err := l.Ask(name, func(s *promotion.State) error {
			for _, p := range s.Promotions() {
				row := HistoryRow{Promotion: *p}
				if p.Status != promotion.Running && p.Status != promotion.Failed {
					row.Ended = p.Changed
				}
				all = append(all, row)
			}
			for _, r := range s.Runs() {
				runs = append(runs, *r)
			}
			return nil
		})
		if err != nil {
			return err
		}
		all = arguments.Last(all, last)
		rows := [][]string{{"REVISION", "STAGE", "STATUS", "STARTED", "ENDED", "TRIES", "FROM", "SINCE EVENT", "DEPLOYMENT", "WHY"}}
		for _, p := range all {
			ended, why := "", p.Cause
			if !p.Ended.IsZero() {
				ended = phrase.Moment(p.Ended)
			}
			if p.SupersededBy != "" {
				why = "by " + p.SupersededBy
			}
			why, _, _ = strings.Cut(why, "\n")
			rows = append(rows, []string{
				p.Revision, p.Stage, string(p.Status), phrase.Moment(p.Started), output.Dash(ended), fmt.Sprint(p.Attempt), p.From, fmt.Sprint(p.Since), output.Dash(p.Deployment), output.Dash(why),
			})
		}
		const ended, event, deployment = 4, 7, 8
		return a.History(map[string]any{"pipeline": name, "promotions": append([]HistoryRow{}, all...), "runs": append([]promotion.Run{}, runs...)}, "no revision was promoted", rows, event, deployment, ended)
	})
}

// Show prints what came of a revision.
func Show(ctx context.Context, a *app.App, name, revision string, at int64) (is bool, err error) {
	return within(ctx, a, name, at, func(l *Levels) error {
		report, err := l.Report(name)
		if err != nil {
			return err
		}
		var all []promotion.Promotion
		var texts []string
		err = l.Ask(name, func(s *promotion.State) error {
			for _, r := range s.Runs() {
				if r.Revision == revision {
					texts = append(texts, fmt.Sprintf("  current since %s (event %d)%s", phrase.Moment(r.Started), r.Event, supersededText(r.SupersededBy)))
				}
			}
			for _, p := range s.Promotions() {
				if p.Revision == revision {
					all = append(all, *p)
					texts = append(texts, fmt.Sprintf("  stage %s: %s, try %d (event %d)%s", p.Stage, p.Status, p.Attempt, p.Since, supersededText(p.SupersededBy)))
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		at := []string{}
		for _, s := range report.Stages {
			if slices.Contains(s.Runs, revision) {
				at = append(at, s.Stage)
			}
		}
		if len(at) == 0 && len(texts) == 0 {
			return fmt.Errorf("pipeline %s has not seen revision %q: deployster pipeline history %s lists what it promoted", name, revision, name)
		}
		head := fmt.Sprintf("revision %s of pipeline %s: runs in %s", revision, name, output.Dash(strings.Join(at, ", ")))
		return a.Show(map[string]any{"pipeline": name, "revision": revision, "stages": at, "promotions": append([]promotion.Promotion{}, all...)}, func() error {
			return a.Printf("%s\n", phraseLines(append([]string{head}, texts...)))
		})
	})
}

func phraseLines(lines []string) string {
	for i := range lines {
		lines[i] = phrase.Plain(lines[i])
	}
	return strings.Join(lines, "\n")
}

func supersededText(by string) string {
	if by == "" {
		return ""
	}
	return ", superseded by revision " + by
}
