package build

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/internal/view/groups"
	"github.com/deployster-go/deployster/runner"
)

type logsOptions struct {
	group, job string
	attempt    int
	follow     bool
}

func newLogsCommand(a *app.App) *cobra.Command {
	var o logsOptions
	c := &cobra.Command{
		Use:   "logs ID JOB",
		Short: "Print what a job of a build group printed",
		Long: `Print what a job of a build group printed: in its last attempt, or in another one
(--attempt). JOB is a number, or what the job builds, such as gcc, or gcc#1 for the first
pass. Of a job whose artifact is that of an earlier one, it is what that printed.

Of a log of more than 16 MiB the first and the last half of that are kept. What a group
leaves is below .deployster/builds of the workspace whose "build run", or server, did the
job.`,
		Example: "  deployster build logs base-7 12\n  deployster build logs base gcc#1 --follow",
		Args:    arguments.Named("a build group", "a job"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case c.Flags().Changed("attempt") && o.attempt < 1:
				return exit.Usage("--attempt %d: attempts are numbered from 1", o.attempt)
			case o.attempt > 0 && o.follow:
				return exit.Usage("--follow shows the last attempt: leave out --attempt")
			case o.follow && a.JSON():
				return exit.Usage("--follow prints what the job prints: it cannot be JSON")
			}
			o.group, o.job = args[0], args[1]
			err := interrupt.Within(c.Context(), func(ctx context.Context) error { return runLogs(ctx, a, o) })
			if o.follow && errors.Is(err, runner.ErrInterrupted) {
				return exit.Reported(runner.ErrInterrupted) // that is how one who follows ends it
			}
			return err
		},
	}
	c.Flags().IntVar(&o.attempt, "attempt", 0, "attempt to show (default: the last)")
	c.Flags().BoolVar(&o.follow, "follow", false, "go on with what it prints, until the job has ended")
	return c
}

func runLogs(ctx context.Context, a *app.App, o logsOptions) error {
	return withGroups(ctx, a, []string{o.group}, 0, func(b *query.Builds) error {
		j, err := b.Job(o.group, o.job)
		if err != nil {
			return err
		}
		if o.attempt == 0 && j.Finished != nil && j.Finished.Reused != "" {
			if j, err = original(a, b, j); err != nil {
				return err
			}
		}
		remote, err := a.Remote()
		if err != nil {
			return err
		}
		l := &jobLog{app: a, remote: remote, builds: b, job: j, attempt: o.attempt}
		if o.follow {
			return l.follow(ctx)
		}
		return l.print(ctx)
	})
}

// original is the job whose artifact another one has taken.
func original(a *app.App, b *query.Builds, j build.JobReport) (build.JobReport, error) {
	group, number, _ := record.Parse(j.Finished.Reused)
	of, err := b.Job(group, fmt.Sprint(number))
	if err != nil {
		return j, fmt.Errorf("%s of build group %s was not built, for what %s built is the same: %w", groups.Name(j), j.Group, j.Finished.Reused, err)
	}
	fmt.Fprintf(a.Err, "note: %s of %s was not built, for what job %d of %s built is the same: this is the log of that\n", groups.Name(j), j.Group, number, terminal.InLine(group))
	return of, nil
}

// jobLog is what a job printed.
type jobLog struct {
	app     *app.App
	remote  *client.Client // the server that has it; nil where it is here
	builds  *query.Builds
	job     build.JobReport
	attempt int // 0 is the last

	shown   int64  // bytes of the file
	left    int64  // bytes that the file was found to leave out of its middle; 0 is none
	resumes int64  // where in the file the rest begins
	rest    []byte // of the line that has not ended
}

// number is the attempt that is shown; 0 is none.
func (l *jobLog) number() int {
	if l.attempt > 0 {
		return l.attempt
	}
	return jobs.LoggedAttempt(l.job)
}

// logFile is the log of a job, here or at a server.
type logFile interface {
	io.ReaderAt
	io.Closer
	Size() (int64, error)
}

// localLog is one that is here.
type localLog struct{ *os.File }

// Size implements logFile.
func (l localLog) Size() (int64, error) {
	info, err := l.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (l *jobLog) open(ctx context.Context) (logFile, error) {
	if l.remote != nil {
		return l.remote.JobLog(ctx, l.job.Group, l.job.Number, l.number())
	}
	f, err := jobs.OpenLog(l.app.Workspace, l.job.Group, l.job.Number, l.number())
	return localLog{f}, err
}

// absent is why there is no log.
func (l *jobLog) absent(err error) error {
	j := l.job
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the log of %s of %s: %w", groups.Name(j), j.Group, err)
	case l.attempt > j.Attempt:
		return exit.Usage("%s of %s has no attempt %d: the last is %d", groups.Name(j), j.Group, l.attempt, j.Attempt)
	case l.number() == 0:
		why := ""
		if reasons, err := l.builds.Explain(record.Job(j.Group, j.Number), nil, true); err == nil && len(reasons) > 0 {
			why = ": " + reasons[0].Message
		}
		return fmt.Errorf("%s of %s has no log, for it never ran%s", groups.Name(j), j.Group, why)
	case j.State.InFlight() && l.number() == j.Attempt:
		return fmt.Errorf("%s of %s has printed nothing here yet: it is being built on %s; --follow waits for it", groups.Name(j), j.Group, j.Worker)
	default:
		return fmt.Errorf("%s of %s has no log here any more: %s is not there; gc removes old logs, and a job that another workspace ran has its log there",
			groups.Name(j), j.Group, jobs.LogName(j.Group, j.Number, l.number()))
	}
}

// print prints the log as it is.
func (l *jobLog) print(ctx context.Context) error {
	if l.number() == 0 || l.attempt > l.job.Attempt {
		return l.absent(fs.ErrNotExist)
	}
	f, err := l.open(ctx)
	if err != nil {
		return l.absent(err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	if l.app.JSON() {
		return l.document(f)
	}
	if err := l.copy(f); err != nil {
		return err
	}
	return l.end()
}

// document prints the log for programs.
func (l *jobLog) document(f logFile) error {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<62))
	if err != nil {
		return l.absent(err)
	}
	lines := []string{}
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return l.app.Show(map[string]any{
		"group": l.job.Group, "job": l.job.Number, "package": l.job.Package, "attempt": l.number(), "state": l.job.State, "bytes": len(text), "lines": lines,
	}, nil)
}

// copy prints what the file has gained: as it is, or line by line on a terminal, where what
// a job prints must not move the cursor.
func (l *jobLog) copy(f logFile) error {
	more := bufio.NewReader(io.NewSectionReader(f, l.shown, 1<<62))
	for {
		line, err := more.ReadSlice('\n')
		l.shown += int64(len(line))
		if len(line) > 0 {
			if failed := l.write(line); failed != nil {
				return failed
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("reading the log: %w", err)
		}
	}
}

// longestLine is how much of a line is written at once on a terminal.
const longestLine = 8 << 10

func (l *jobLog) write(text []byte) error {
	if !l.app.Terminal(l.app.Out) {
		return l.app.Printf("%s", text)
	}
	l.rest = append(l.rest, text...)
	if !bytes.HasSuffix(l.rest, []byte("\n")) && len(l.rest) < longestLine {
		return nil
	}
	line := terminal.Line(string(l.rest))
	l.rest = l.rest[:0]
	return l.app.Printf("%s\n", line)
}

// end ends the last line.
func (l *jobLog) end() error {
	if len(l.rest) == 0 {
		return nil
	}
	return l.write([]byte("\n"))
}

// followPause is how often there may be something new.
const followPause = 100 * time.Millisecond

// follow prints the log until the job has ended. A job that is lost and tried again goes on
// with the log of that.
func (l *jobLog) follow(ctx context.Context) error {
	at := l.job.Attempt
	for {
		over := l.over()
		if l.job.Attempt > 0 {
			switch f, err := l.open(ctx); {
			case err == nil:
				err = errors.Join(l.shortened(f), l.copy(f))
				_ = f.Close()
				if err != nil {
					return err
				}
			case over || !errors.Is(err, fs.ErrNotExist):
				return l.absent(err)
			}
		}
		if over {
			return l.ended()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followPause):
		}
		if err := l.builds.Follow(ctx, 0); err != nil {
			return err
		}
		j, err := l.builds.Job(l.job.Group, fmt.Sprint(l.job.Number))
		if err != nil {
			return err
		}
		if j.Attempt != at && at > 0 {
			if err := l.end(); err != nil {
				return err
			}
			fmt.Fprintf(l.app.Err, "note: attempt %d of %s is lost, this is attempt %d\n", at, groups.Name(j), j.Attempt)
			l.shown, l.left, l.resumes = 0, 0, 0
		}
		at, l.job = j.Attempt, j
	}
}

// shortened goes on in the end of a log, once its middle is left out, or more of that than before,
// as of a log that goes on after its process was killed: after what was shown already, or after how
// much of it was not.
func (l *jobLog) shortened(f logFile) error {
	size, err := f.Size()
	if err != nil || size <= jobs.MaxLog {
		return err
	}
	left, end, ok := jobs.LeftOut(f)
	if !ok || left == l.left {
		return nil
	}
	beyond := l.shown - jobs.MaxLog/2 // what was shown of the log after its first half, or left out
	if l.left > 0 {
		beyond = l.left + l.shown - l.resumes
	}
	if l.left, l.resumes = left, end; l.shown <= jobs.MaxLog/2 {
		return nil // the file says what is left out where it goes on
	}
	l.shown = end + max(0, beyond-left)
	if beyond >= left {
		return nil
	}
	for line := range bytes.Lines(fmt.Appendf(nil, jobs.Omission, left-beyond)) { // the first ends what was shown
		if err := l.write(line); err != nil {
			return err
		}
	}
	return nil
}

// over reports whether the job will print no more.
func (l *jobLog) over() bool { return l.job.State.Ended() }

// ended says how the job ended.
func (l *jobLog) ended() error {
	j := l.job
	if j.Attempt == 0 {
		return l.absent(fs.ErrNotExist)
	}
	if err := l.end(); err != nil {
		return err
	}
	switch j.State {
	case transition.Built:
		fmt.Fprintf(l.app.Err, "note: %s of %s is built\n", groups.Name(j), j.Group)
	case transition.JobFailed:
		fmt.Fprintf(l.app.Err, "note: %s\n", groups.Failure(query.FailedJob{JobReport: j}, l.builds.Now()))
	default:
		fmt.Fprintf(l.app.Err, "note: %s of %s is %s\n", groups.Name(j), j.Group, j.State)
	}
	return nil
}
