package session

import (
	"context"
	"path/filepath"

	"github.com/deployster-go/deployster/control/apply"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
)

// StartOrphans starts a run that removes orphans: those that targets name, with what depends on them; none is all.
func StartOrphans(ctx context.Context, a *app.App, command string, targets []string, ef engines.Flags) (_ *Started, err error) {
	config, err := config(a, nil, Flags{}, ef)
	if err != nil {
		return nil, err
	}
	if err := a.CheckParallelism(); err != nil {
		return nil, err
	}
	in, err := apply.OrphansInput(&config)
	if err != nil {
		return nil, err
	}
	s := &Started{Run: &apply.Run{Run: &work.Run{Input: in}}, now: a.Now}
	s.Ctx, s.signals = interrupt.Handle(ctx, a.Notice)
	defer func() {
		if err != nil {
			err = s.Interrupted(err)
			s.Close()
		}
	}()
	if s.log, err = a.OpenExisting(s.Ctx, a.Notices()); err != nil {
		return nil, err
	}
	if err := s.preferEngine([]string{filepath.Join(in.Workspace, apply.OrphansFile)}, &ef); err != nil {
		return nil, err
	}
	if s.Connection, err = engines.Connect(s.Ctx, a, a.Notices(), ef); err != nil {
		return nil, err
	}
	config.Log, config.Notice = s.log, func(text string) { a.Notice("note: " + text) }
	s.Run = apply.PrepareOrphans(&config, in, s.Connection, apply.Order{Command: command, Stop: s.signals.Stop}, targets)
	return s, nil
}
