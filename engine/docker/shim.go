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

// shimTarget begins the path at which a container has its entrypoint shim. The
// random end of the path keeps clear of whatever the image has there.
const shimTarget = "/.deployster-entrypoint-"

// shimPids is how many processes and threads the shim may need. A container
// that may have fewer is held without it.
const shimPids = 32

// shimFile returns the shim's file if containers can be started with it.
func (e *Engine) shimFile(file string) string {
	if file == "" || !e.endpoint.local() {
		return ""
	}
	if err := checkShim(file); err != nil {
		e.log.Info("held containers are created ahead, and not started: no entrypoint shim", "shim", file, "error", err)
		return ""
	}
	return file
}

// checkShim returns why a file cannot be the shim: it must be a Linux program that
// needs nothing else of the image, and that any user of a container may execute.
func checkShim(file string) error {
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

// shimIdle is after how long without any input a shim that waits for a whole input
// gives up: Docker forgets, at times, to close the stdin of a container whose
// caller has died. A caller that is suspended for as long has to begin the run
// again.
const shimIdle = 10 * time.Minute

// shimMemory is how much memory the shim may need beside the input.
const shimMemory = 32 << 20

// usesShim reports whether a run is held by the shim: until its release, until its
// input is whole, or both; else only until it has looked at what is mounted.
func (e *Engine) usesShim(spec engine.Spec, stdin bool) bool {
	waits := (spec.Hold != nil || spec.Whole) && stdin
	verifies := spec.Hold == nil && slices.ContainsFunc(spec.Mounts, func(m engine.Mount) bool { return m.Found != (engine.Found{}) })
	return (waits || verifies) && e.shim != "" && !e.withoutShim(spec.Image) &&
		(spec.Pids == 0 || spec.Pids >= shimPids) && (spec.Memory == 0 || spec.Memory >= shimMemory)
}

// everyImage stands for all images of an engine that cannot use the shim.
const everyImage = ""

// withoutShim reports whether containers of an image failed because of the shim.
func (e *Engine) withoutShim(image string) bool {
	_, all := e.shimless.Load(everyImage)
	_, one := e.shimless.Load(image)
	return all || one
}

// shimFailed reports whether a container could not be made or started because of
// the shim, and remembers of which images no other is to be tried with it: of all,
// if the engine does not have the shim's file or is another platform, else of this
// one.
func (e *Engine) shimFailed(ctx context.Context, image, mark string, err error) bool {
	if mark == "" || err == nil || engine.Exhausted(err) {
		return false
	}
	text := err.Error()
	target := strings.Contains(text, shimTarget)
	switch {
	case target && strings.Contains(text, "exec format error"), !target && names(text, e.shim):
		image = everyImage
	case !target:
		return false
	}
	if _, known := e.shimless.Swap(image, true); !known {
		e.log.InfoContext(ctx, "held containers are created ahead, and not started: the engine cannot use the entrypoint shim", "shim", e.shim, "image", image, "error", err)
	}
	return true
}

// names reports whether a text has a path, and not only as a part of a longer one.
func names(text, path string) bool {
	return regexp.MustCompile(`(^|[\s"'=:])` + regexp.QuoteMeta(path) + `($|[\s"':;,])`).MatchString(text)
}

// insertShim puts the shim before the program of a container: it is mounted, and
// becomes the entrypoint with the program behind it. Without a program it does
// nothing, and Docker reports that there is no program.
func (e *Engine) insertShim(config *container.Config, host *container.HostConfig, spec engine.Spec, mark string) {
	argv := slices.Concat(config.Entrypoint, config.Cmd)
	if len(argv) == 0 {
		return
	}
	target := shimTarget + rand.Text() // not the mark, which the program must not learn
	role := entrypoint.Now(mark, e.expected(spec))
	switch {
	case !config.OpenStdin, spec.Hold == nil && !spec.Whole:
	case spec.Whole:
		role = entrypoint.AwaitWhole(mark, e.idle, e.expected(spec))
	default:
		role = entrypoint.Await(mark, e.expected(spec))
	}
	config.Entrypoint, config.Cmd = append([]string{target}, role...), argv
	host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: e.shim, Target: target, ReadOnly: true})
}

// expected is what a container is to see of what was checked. Where this machine does not say
// what its kernel and its files are, nothing is.
func (e *Engine) expected(spec engine.Spec) (expected entrypoint.Expected) {
	boot, err := os.ReadFile(entrypoint.BootFile)
	if err != nil {
		return expected
	}
	shim, err := (engine.Finder{}).Find(e.shim)
	if err != nil {
		return expected
	}
	expected.Boot, expected.Shim = string(boot), entrypoint.Source(shim)
	for _, m := range spec.Mounts {
		if m.Found != (engine.Found{}) {
			is := entrypoint.Source(m.Found)
			is.Path = m.Target
			expected.Mounts = append(expected.Mounts, is)
		}
	}
	return expected
}

// replaced returns the error of a container whose shim has seen something else than was checked,
// nil for another reason.
func replaced(spec engine.Spec, reason string) error {
	at, is := strings.CutPrefix(reason, entrypoint.ReplacedText)
	if !is {
		return nil
	}
	for _, m := range spec.Mounts {
		if at == m.Target || strings.HasPrefix(at, m.Target+": ") {
			return fmt.Errorf("mount source %s: %w; run again, or give the engine and this process the same %[1]s", m.Source, engine.ErrReplaced)
		}
	}
	return engine.ErrReplaced
}

// shimReport passes the stderr of a container on, except for the shim's report of
// why it did not become the program. That report comes before anything else and
// begins with the mark, which no program can know.
type shimReport struct {
	mark   string // "" for a container without a shim
	out    io.Writer
	begun  []byte // what may turn out to be the shim's
	passes bool   // the program writes
}

func (r *shimReport) Write(p []byte) (int, error) {
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

// failed reports whether the shim did not become the program.
func (r *shimReport) failed() bool {
	return !r.passes && r.mark != "" && bytes.HasPrefix(r.begun, []byte(r.mark))
}

// reason is why the shim failed.
func (r *shimReport) reason() string { return string(r.begun[len(r.mark):]) }

// flush passes on, at the end of the output, what began like the mark and was
// the program's.
func (r *shimReport) flush() error {
	if r.passes || r.failed() || len(r.begun) == 0 {
		return nil
	}
	r.passes = true
	_, err := r.out.Write(r.begun)
	return err
}
