package promotion

import (
	"context"
	"fmt"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotions"
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
	if err := a.Local(); err != nil { // before anything is sent there
		return true, err
	}
	if err := placeFiles(a, d, file); err != nil {
		return true, err
	}
	return true, a.WithNewLog(ctx, func(log deploylog.Log) error {
		l, err := Open(ctx, log, a.Now, 0)
		if err != nil {
			return err
		}
		if err := l.environments.Follow(ctx, 0); err != nil {
			return err
		}
		if err := collectVerifying(ctx, a, l.environments, d, inputs); err != nil {
			return exit.Invalid(err)
		}
		return apply(ctx, a, l, log, promotion.Define{Definition: d, ID: a.NewID(), By: app.Whoami()}, yes)
	})
}

func apply(ctx context.Context, a *app.App, l *Levels, log deploylog.Log, c promotion.Define, yes bool) error {
	name := c.Definition.Name
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
	// While both kinds are locked no pipeline of the other kind can get the name.
	others := pipelines.New(log, a.Now)
	if err := others.Follow(ctx, 0); err != nil {
		return err
	}
	var events []deploylog.Event
	err := others.Hold(ctx, func() (err error) {
		if s, err := others.Find(name); err == nil && s.Deleted() == 0 && s.Definition() != nil {
			return exit.Usage("pipeline %s is one whose revisions are released: leave promotion out of its definition, delete it first (deployster pipeline delete %s), or take another name", name, name)
		}
		events, err = l.Command(ctx, l.environments, name, c)
		return err
	})
	if err != nil {
		return err
	}
	reasons, err := ask(l, name, func(s *promotion.State, o promotion.Observed) []promotion.Reason {
		return s.Explain(promotion.Target(name), promotions.Observe(l.environments, s, nil), l.Now())
	})
	if err != nil {
		return err
	}
	for _, r := range reasons {
		if r.Code == promotion.Unobserved || r.Code == promotion.Unhealthy {
			fmt.Fprintf(a.Err, "note: stage %s: %s\n", phrase.Plain(r.Stage), phrase.Plain(r.Message))
		}
	}
	return a.Recorded(map[string]any{"pipeline": name}, events[len(events)-1:], fmt.Sprintf("pipeline %s is defined, %s that promote by observed state", name, phrase.Count(len(c.Definition.Stages), "stage")), "")
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
		events, err := l.Command(ctx, l.environments, name, c)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return a.Say(map[string]any{"events": []deploylog.Event{}}, "%s already", done)
		}
		return a.Recorded(map[string]any{}, events[len(events)-1:], done, "")
	})
}

// Delete deletes a pipeline, if it is such a one.
func Delete(ctx context.Context, a *app.App, name string, c promotion.Delete, yes bool) (is bool, err error) {
	return within(ctx, a, name, 0, func(l *Levels) error {
		if err := l.Ask(name, func(s *promotion.State) error {
			_, err := s.Propose(c, nil, l.Now()) // what is refused is not asked for
			return err
		}); err != nil {
			return err
		}
		if err := prompt.Agree(ctx, a, yes, "pipeline "+name+" would be deleted", "Delete pipeline %s?", name); err != nil {
			return err
		}
		events, err := l.Command(ctx, l.environments, name, c)
		if err != nil {
			return err
		}
		return a.Recorded(map[string]any{"pipeline": name}, events[len(events)-1:], fmt.Sprintf("pipeline %s is deleted", name), "")
	})
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
