package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/entrypoint"
)

// gateTarget begins the path at which a container has its gate. A random end keeps
// clear of whatever the image has there.
const gateTarget = "/.deployster-gate-"

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
	return (spec.Hold != nil || spec.Whole) && stdin && e.gate != "" && !e.isUngated(spec.Image) &&
		(spec.Pids == 0 || spec.Pids >= gatePids) && (spec.Memory == 0 || spec.Memory >= gateMemory)
}

// everyImage stands for all images of an engine that can not use the gate.
const everyImage = ""

// isUngated reports whether containers of an image failed because of the gate.
func (e *Engine) isUngated(image string) bool {
	_, all := e.ungated.Load(everyImage)
	_, one := e.ungated.Load(image)
	return all || one
}

// withoutGate reports whether a container could not be made or started because of
// the gate, and remembers of which images no other is to be tried with it: of all,
// if the engine does not have the gate's file or is another platform, else of this
// one.
func (e *Engine) withoutGate(ctx context.Context, image, mark string, err error) bool {
	if mark == "" || err == nil {
		return false
	}
	text := err.Error()
	target := strings.Contains(text, gateTarget)
	switch {
	case target && strings.Contains(text, "exec format error"), !target && names(text, e.gate):
		image = everyImage
	case !target:
		return false
	}
	if _, known := e.ungated.Swap(image, true); !known {
		e.log.InfoContext(ctx, "held containers are created ahead, and not started: the engine can not use the gate", "gate", e.gate, "image", image, "error", err)
	}
	return true
}

// names reports whether a text has a path, and not only as a part of a longer one.
func names(text, path string) bool {
	return regexp.MustCompile(`(^|[\s"'=:])` + regexp.QuoteMeta(path) + `($|[\s"':;,])`).MatchString(text)
}

// engate puts the gate before the program of a container: it is mounted, and
// becomes the entrypoint with the program behind it. Without a program it does
// nothing, and Docker says so in its own words.
func (e *Engine) engate(config *container.Config, host *container.HostConfig, spec engine.Spec, mark string) {
	argv := slices.Concat(config.Entrypoint, config.Cmd)
	if len(argv) == 0 {
		return
	}
	target := gateTarget + rand.Text() // not the mark, which the program must not learn
	config.Entrypoint, config.Cmd = []string{target, entrypoint.Word, mark}, argv
	if spec.Whole {
		config.Entrypoint = []string{target, entrypoint.WholeWord, e.silence.String(), mark}
	}
	host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: e.gate, Target: target, ReadOnly: true})
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
