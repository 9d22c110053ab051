package promotion

import (
	"context"
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// Apply defines a pipeline by a file, if that is of one that promotes by observed state.
func Apply(ctx context.Context, a *app.App, file string, inputs Inputs, yes bool) (is bool, err error) {
	text, err := work.ReadFile(file)
	if err != nil || !definition.Promotes(text) {
		return false, nil // the other kind of definition says what is wrong with it
	}
	d, err := definition.Parse(file, text)
	if err != nil {
		return true, exit.Invalid(err)
	}
	if err := placeFiles(a, d, file); err != nil {
		return true, err
	}
	return true, a.WithNewLog(ctx, func(log deploylog.Log) error {
		l, err := Open(ctx, log, a.Now, 0)
		if err != nil {
			return err
		}
		if err := l.Follow(ctx); err != nil {
			return err
		}
		if err := collectVerifying(ctx, a, l.Environments, d, inputs); err != nil {
			return exit.Invalid(err)
		}
		if err := collectTargets(ctx, a, d, inputs); err != nil {
			return exit.Invalid(err)
		}
		for {
			err := apply(ctx, a, l, log, promotion.Define{Definition: d, ID: a.NewID(), By: app.Whoami()}, yes)
			if again, err := moved(ctx, a, l, d.Name, err); !again {
				return err
			}
		}
	})
}

// moved follows what is new where a pipeline was changed since it was looked at, so that it is
// looked at again.
func moved(ctx context.Context, a *app.App, l *Levels, name string, err error) (again bool, _ error) {
	if !errors.Is(err, reconcile.ErrMoved) {
		return false, err
	}
	fmt.Fprintf(a.Err, "note: pipeline %s has been changed meanwhile\n", name)
	err = l.Follow(ctx)
	return err == nil, err
}

func apply(ctx context.Context, a *app.App, l *Levels, log deploylog.Log, c promotion.Define, yes bool) error {
	name := c.Definition.Name
	for _, text := range c.Definition.Warnings() {
		fmt.Fprintf(a.Err, "warning: %s\n", phrase.Plain(text))
	}
	same := false
	if l.Is(name) {
		err := l.Ask(name, func(s *promotion.State) error {
			events, err := s.Propose(c, nil, l.Now())
			same = len(events) == 0
			return err
		})
		if err != nil {
			return err
		}
		if same {
			return a.Say(map[string]any{"pipeline": name, "events": []deploylog.Event{}}, "pipeline %s is defined like that already", name)
		}
		if err := prompt.Agree(ctx, a, yes, fmt.Sprintf("pipeline %s would be changed", name), "Change pipeline %s?", name); err != nil {
			return err
		}
	}
	events, err := define(ctx, a, l, log, c, yes)
	if err != nil {
		return err
	}
	reasons, err := ask(l, name, func(s *promotion.State, o promotion.Observed) []promotion.Reason {
		return s.Explain(promotion.Target(name), promotions.Observe(l.Environments, s, nil), l.Now())
	})
	if err != nil {
		return err
	}
	for _, r := range reasons {
		if r.Code == promotion.Unobserved || r.Code == promotion.Unhealthy {
			fmt.Fprintf(a.Err, "note: stage %s: %s\n", phrase.Plain(r.Stage), phrase.Plain(r.Message))
		}
	}
	return a.Recorded(map[string]any{"pipeline": name}, events[max(len(events)-1, 0):], fmt.Sprintf("pipeline %s is defined, %s that promote by observed state", name, phrase.Count(len(c.Definition.Stages), "stage")), "")
}

// define has a definition recorded, of a pipeline that is as it was looked at.
func define(ctx context.Context, a *app.App, l *Levels, log deploylog.Log, c promotion.Define, yes bool) (events []deploylog.Event, err error) {
	name := c.Definition.Name
	others := pipelines.New(log, a.Now)
	if err := others.Follow(ctx, 0); err != nil {
		return nil, err
	}
	taken := func() error {
		if s, err := others.Find(name); err == nil && s.Deleted() == 0 && s.Definition() != nil {
			return exit.Usage("pipeline %s is one whose revisions are released: leave promotion out of its definition, delete it first (deployster pipeline delete %s), or take another name", name, name)
		}
		return nil
	}
	if others.Locked(func() { err = taken() }); err != nil {
		return nil, err
	}
	if events, sent, err := l.Send(ctx, name, c, l.asOf(yes)); sent {
		return events, err
	}
	// While both kinds are locked no pipeline of the other kind can get the name.
	err = others.Hold(ctx, func() (err error) {
		if err := taken(); err != nil {
			return err
		}
		events, err = l.Command(ctx, l.Environments, name, c)
		return err
	})
	return events, err
}

// asOf is the event that a change is made for; 0 is whatever the pipeline has become by then.
func (l *Levels) asOf(whatever bool) int64 {
	if whatever {
		return 0
	}
	return l.Head()
}

// Free refuses the name of a pipeline that promotes by observed state for one of the other
// kind.
func Free(ctx context.Context, log deploylog.Log, name string) error {
	has, err := promotions.Has(ctx, log, name, 0)
	if err == nil && has {
		return exit.Usage("pipeline %s promotes by observed state: its definition needs promotion, or delete it first (deployster pipeline delete %s), or take another name", name, name)
	}
	return err
}

// Propose has a command recorded, if a name is that of such a pipeline.
func Propose(ctx context.Context, a *app.App, name string, c promotion.Command, done string) (is bool, err error) {
	return within(ctx, a, name, 0, func(l *Levels) error {
		events, err := l.Command(ctx, l.Environments, name, c)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return a.Say(map[string]any{"events": []deploylog.Event{}}, "%s already", done)
		}
		return a.Recorded(map[string]any{}, events[len(events)-1:], done, "")
	})
}

// Approve has an approval recorded, if a name is that of such a pipeline, and says what it came to.
func Approve(ctx context.Context, a *app.App, name string, c promotion.Approve) (is bool, err error) {
	return within(ctx, a, name, 0, func(l *Levels) error {
		events, err := l.Command(ctx, l.Environments, name, c)
		if err != nil {
			return err
		}
		done, err := l.approved(ctx, name, c)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return a.Say(map[string]any{"events": []deploylog.Event{}}, "%s already", done)
		}
		return a.Recorded(map[string]any{}, events, done, "")
	})
}

// approved says what an approval came to.
func (l *Levels) approved(ctx context.Context, name string, c promotion.Approve) (string, error) {
	if err := l.Follow(ctx); err != nil {
		return "", err
	}
	reasons, err := ask(l, name, func(s *promotion.State, o promotion.Observed) []promotion.Reason {
		return s.Explain(promotion.StageTarget(name, s.Definition().Short(c.Stage)), o, l.Now())
	})
	for _, r := range reasons {
		if r.Code == promotion.AwaitsApproval && r.Revision == c.Revision {
			return fmt.Sprintf("revision %s of pipeline %s waits at stage %s: %s", c.Revision, name, c.Stage, phrase.Plain(r.Approval.Text())), err
		}
	}
	return fmt.Sprintf("revision %s of pipeline %s is approved at stage %s", c.Revision, name, c.Stage), err
}

// Delete deletes a pipeline, if it is such a one.
func Delete(ctx context.Context, a *app.App, name string, c promotion.Delete, yes bool) (is bool, err error) {
	return within(ctx, a, name, 0, func(l *Levels) error {
		for {
			err := remove(ctx, a, l, name, c, yes)
			if again, err := moved(ctx, a, l, name, err); !again {
				return err
			}
		}
	})
}

func remove(ctx context.Context, a *app.App, l *Levels, name string, c promotion.Delete, yes bool) error {
	if err := l.Ask(name, func(s *promotion.State) error {
		_, err := s.Propose(c, nil, l.Now()) // what is refused is not asked for
		return err
	}); err != nil {
		return err
	}
	if err := prompt.Agree(ctx, a, yes, "pipeline "+name+" would be deleted", "Delete pipeline %s?", name); err != nil {
		return err
	}
	events, sent, err := l.Send(ctx, name, c, l.asOf(yes))
	if !sent {
		events, err = l.Command(ctx, l.Environments, name, c)
	}
	if err != nil {
		return err
	}
	return a.Recorded(map[string]any{"pipeline": name}, events[max(len(events)-1, 0):], fmt.Sprintf("pipeline %s is deleted", name), "")
}

// Refuse refuses a command that makes no sense for such a pipeline, if a name is that of one.
func Refuse(ctx context.Context, a *app.App, name, command, remedy string) (is bool, err error) {
	return within(ctx, a, name, 0, func(*Levels) error {
		return exit.Usage("pipeline %s promotes by observed state, so there is no %s of it: %s", name, command, remedy)
	})
}

// Released is the error of a command that is only of such pipelines.
func Released(name, remedy string) error {
	return exit.Usage("pipeline %s does not promote by observed state, or there is none: %s", name, remedy)
}
