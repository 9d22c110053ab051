// Command ring runs the tests of packages, prints each failure when it happens, and ends with the
// slowest tests and with the commands that repeat what failed.
//
//	go run ./test/ring check  the pure packages, which start neither goroutines nor processes
//	go run ./test/ring test   every package, with the race detector where goroutines are
//	go run ./test/ring all    every package under the race detector, with the long tests
//
// Packages named after the ring replace those of the ring. The Makefile calls it.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends this program at once
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ring:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	began := time.Now()
	if seconds, err := strconv.ParseInt(os.Getenv("RING_BEGAN"), 10, 64); err == nil { // scripts/test checked before
		began = time.Unix(seconds, 0)
	}
	if len(args) == 0 {
		return errors.New("missing ring: go run ./test/ring check|test|all [PACKAGE…]")
	}
	packages, err := list(ctx, args[1:])
	if err != nil {
		return err
	}
	changed, err := changedDirectories(ctx)
	if err != nil {
		return err
	}
	lanes, err := plan(args[0], packages, changed)
	if err != nil {
		return err
	}
	for _, p := range packages {
		if len(args) > 1 && !planned(lanes, p) {
			return fmt.Errorf("package %s is not in the ring %s: use the ring test", p.dir, args[0])
		}
	}
	report := newReport(out, os.Getenv("CI") == "")
	// Packages wait for containers and processes much of their time, so the lanes run at once.
	var running sync.WaitGroup
	for _, lane := range lanes {
		running.Go(func() {
			for _, s := range lane {
				s.run(ctx, report)
			}
		})
	}
	running.Wait()
	report.finish(time.Since(began))
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case report.failed():
		return errors.New("tests failed")
	}
	return nil
}

// run executes the step and feeds its events to the report, also that packages were not tested.
func (s step) run(ctx context.Context, report *report) {
	cmd := exec.CommandContext(ctx, "go", s.arguments()...)
	cmd.Env = append(os.Environ(), s.environment...)
	// An interrupt reaches the whole group, as it does in a terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		err = report.read(s, events)
		err = errors.Join(err, cmd.Wait())
	}
	if left := report.untested(s); len(left) > 0 {
		report.fault(s, left, errors.Join(err, errors.New(strings.TrimSpace(stderr.String()))))
	}
}

// changedDirectories returns the directories with files that are not committed or not pushed. If
// all is pushed, it returns those of the newest commit.
func changedDirectories(ctx context.Context) (map[string]bool, error) {
	base := "HEAD~1"
	if _, err := output(ctx, "git", "rev-parse", "--verify", "--quiet", base); err != nil {
		return nil, nil // the first commit, or a checkout without history
	}
	if text, err := output(ctx, "git", "merge-base", "HEAD", "@{upstream}"); err == nil {
		if head, err := output(ctx, "git", "rev-parse", "HEAD"); err == nil && head != text {
			base = strings.TrimSpace(text)
		}
	}
	changed, err := output(ctx, "git", "diff", "--name-only", base, "--")
	if err != nil {
		return nil, err
	}
	fresh, err := output(ctx, "git", "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	directories := map[string]bool{}
	for line := range strings.Lines(changed + fresh) {
		// A file below testdata belongs to the package above it.
		dir, _, _ := strings.Cut(strings.TrimSpace(line), "/testdata/")
		if dir == strings.TrimSpace(line) {
			dir = dir[:max(0, strings.LastIndexByte(dir, '/'))]
		}
		directories[dir] = true
	}
	return directories, nil
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the arguments are those of the person who runs the tests
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(text), nil
}
