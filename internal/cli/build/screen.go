package build

import (
	"context"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view/groups"
)

// screen shows what happens to build groups while a command works on them: a line an event,
// or a board on a terminal. It is a reconcile.Observer, and makes notices of what a logger
// writes.
type screen struct {
	*output.Events
	board *groups.Board // may be nil

	// What is shown is folded from the log, whoever works on it.
	ctx     context.Context
	builds  *query.Builds
	workers build.Workers
}

// openScreen opens the screen of a command. workers is where jobs may be done, which are of an
// inventory; "" is none.
func openScreen(ctx context.Context, a *app.App, log deploylog.Log, workers build.Workers, inventory string) *screen {
	s := &screen{Events: a.Events(), ctx: context.WithoutCancel(ctx), builds: query.NewBuilds(log, a.Now), workers: workers}
	s.builds.Inventory = inventory
	s.JobName = s.jobName
	if !a.JSON() && a.Terminal(a.Out) {
		s.board = groups.NewBoard(a.Out, a.BoardOptions(a.Out, s.source))
		s.Notices = s.Notice
	}
	return s
}

// jobName is what a job builds, "" where that cannot be found out.
func (s *screen) jobName(group string, job int) (name string) {
	find := func(state *build.State) error {
		j, err := state.Job(group, job)
		if err == nil {
			name = groups.Package(j)
		}
		return err
	}
	if s.builds.State(find) != nil && s.builds.Follow(s.ctx, 0) == nil {
		_ = s.builds.State(find) // what there is no name for is shown without
	}
	return name
}

// source is the groups that are being built, and how many are queued.
func (s *screen) source() (current []query.BuildStatus, queued int) {
	if s.builds.Follow(s.ctx, 0) != nil {
		return nil, 0 // the command itself reports what is wrong with the log
	}
	for _, g := range s.builds.Groups() {
		switch {
		case g.State == transition.Queued:
			queued++
		case g.State.Runs():
			if status, err := s.builds.BuildStatus(g.ID, s.workers); err == nil {
				current = append(current, status)
			}
		}
	}
	return current, queued
}

// Recorded implements reconcile.Observer.
func (s *screen) Recorded(e deploylog.Event) {
	if s.board == nil {
		s.Events.Recorded(e)
		return
	}
	name := ""
	if group, job, _ := record.Parse(e.Target); job > 0 {
		name = s.JobName(group, job)
	}
	s.board.Event(e, name)
}

// Notice implements reconcile.Observer.
func (s *screen) Notice(text string) {
	if s.board == nil {
		s.Events.Notice(text)
		return
	}
	s.board.Note(text)
}

// Close ends what is drawn. It returns the first error of writing.
func (s *screen) Close() error {
	if s.board == nil {
		return nil
	}
	return s.board.Close()
}
