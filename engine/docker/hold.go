package docker

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/gate"
)

// gateTarget is where the gate is in a container that has one.
const gateTarget = "/.deployster-gate"

// gatePids is how many processes and threads the gate may need. A container
// that may have fewer is held without it.
const gatePids = 32

// gateFile returns the gate's file if containers can be started with it.
func (e *Engine) gateFile(file string) string {
	if file == "" || !e.endpoint.local() {
		return ""
	}
	if err := checkGate(file); err != nil {
		e.log.Info("held containers are created ahead, and not started: no gate", "gate", file, "error", err)
		return ""
	}
	return file
}

// checkGate says why a file can not be the gate: it must be a Linux program
// that needs nothing else of the image, and any user of a container may run it.
func checkGate(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&1 == 0 {
		return fmt.Errorf("mode %s: not everybody may run it", info.Mode())
	}
	program, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("not a Linux program: %w", err)
	}
	defer func() { _ = program.Close() }()
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			return errors.New("dynamically linked: build it with CGO_ENABLED=0")
		}
	}
	return nil
}

// silence is for how long a gate that waits for a whole input takes nothing for
// a sign that nobody will send it any more: Docker forgets, at times, to close the
// stdin of a container whose caller has died. Who is stopped for as long, and goes
// on, has to begin the run again.
const silence = 10 * time.Minute

// gateMemory is how much memory the gate may need beside the input.
const gateMemory = 32 << 20

// gates says whether a run is held by the gate: until its release, until its
// input is whole, or both. One without stdin can't be.
func (e *Engine) gates(spec engine.Spec, stdin bool) bool {
	return (spec.Hold != nil || spec.Whole) && stdin && e.gate != "" && !e.ungated.Load() &&
		(spec.Pids == 0 || spec.Pids >= gatePids) && (spec.Memory == 0 || spec.Memory >= gateMemory)
}

// withoutGate says whether a container could not be made or started because of
// the gate, and sees to it that no other is tried with it.
func (e *Engine) withoutGate(ctx context.Context, mark string, err error) bool {
	if mark == "" || err == nil || !strings.Contains(err.Error(), e.gate) && !strings.Contains(err.Error(), gateTarget) {
		return false
	}
	if !e.ungated.Swap(true) {
		e.log.InfoContext(ctx, "held containers are created ahead, and not started: the engine can not use the gate", "gate", e.gate, "error", err)
	}
	return true
}

// engate puts the gate before the program of a container: it is mounted, and
// becomes the entrypoint with the program behind it. Without a program it does
// nothing, and Docker says so in its own words.
func (e *Engine) engate(config *container.Config, host *container.HostConfig, spec engine.Spec, mark string) {
	argv := slices.Concat(config.Entrypoint, config.Cmd)
	if len(argv) == 0 {
		return
	}
	config.Entrypoint, config.Cmd = []string{gateTarget, gate.Word, mark}, argv
	if spec.Whole {
		config.Entrypoint = []string{gateTarget, gate.WholeWord, e.silence.String(), mark}
	}
	host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: e.gate, Target: gateTarget, ReadOnly: true})
}

// release returns once a held program may start. The time it may take counts
// from then on.
func release(ctx context.Context, spec engine.Spec, fail context.CancelCauseFunc) error {
	select {
	case <-ctx.Done():
	case <-spec.Hold:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	limit(ctx, spec.Timeout, fail)
	return nil
}

// limit makes the run fail when its time is over; 0 is no limit.
func limit(ctx context.Context, timeout time.Duration, fail context.CancelCauseFunc) {
	if timeout <= 0 {
		return
	}
	timer := time.AfterFunc(timeout, func() { fail(fmt.Errorf("%w after %s", engine.ErrTimeout, timeout)) })
	context.AfterFunc(ctx, func() { timer.Stop() })
}

// report passes the stderr of a container on, except what the gate says of
// itself. The gate speaks first if at all, and begins with the mark, which no
// program can know.
type report struct {
	mark   string // "" for a container without a gate
	out    io.Writer
	begun  []byte // what may turn out to be the gate's
	passes bool   // the program writes
}

func (r *report) Write(p []byte) (int, error) {
	if r.passes || r.mark == "" {
		return r.out.Write(p)
	}
	r.begun = append(r.begun, p...)
	if r.failed() || strings.HasPrefix(r.mark, string(r.begun)) {
		return len(p), nil
	}
	r.passes = true
	if _, err := r.out.Write(r.begun); err != nil {
		return 0, err
	}
	return len(p), nil
}

// failed says whether the gate did not become the program.
func (r *report) failed() bool {
	return !r.passes && r.mark != "" && bytes.HasPrefix(r.begun, []byte(r.mark))
}

// reason is what a gate that failed says.
func (r *report) reason() string { return string(r.begun[len(r.mark):]) }

// flush passes on, at the end, a beginning of the mark that was the program's.
func (r *report) flush() error {
	if r.passes || r.failed() || len(r.begun) == 0 {
		return nil
	}
	r.passes = true
	_, err := r.out.Write(r.begun)
	return err
}
