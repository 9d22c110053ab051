// Package enginetest holds the suite that every engine passes, an engine in
// memory that passes it too, and what tests need to make images.
//
// The suite runs one small program, the probe, and checks its output. It
// checks the contract of package engine, and nothing that only one engine has.
package enginetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest/internal/probe"
	"github.com/deployster-go/deployster/internal/waittest"
)

// Images says what the engine under test has been given.
type Images struct {
	Probe   string // reference of ProbeImage (or FakeProbe), held by the engine
	Tar     []byte // the same image for Load, under the name Probe
	Network string // network of the suite's containers; "" is what engines give those that need none

	// InMemory is for an engine that runs no processes. It is spared what only
	// a kernel can do: users, limits, networks, a root of its own.
	InMemory bool

	// NoLimits is for an engine that cannot limit memory and processes here.
	NoLimits bool

	// OneNetwork is for an engine whose containers have one network, and that refuses others.
	OneNetwork bool

	// Supervised is for an engine whose programs are children of a process of its own.
	Supervised bool

	// Unkept is for an engine that keeps no output of containers that outlive their caller.
	Unkept bool

	// Works is for an engine that says of itself that it Works, see engine.Info.
	Works bool

	// Writable makes a directory that containers can have mounted to write to. It returns what is
	// the source of such a mount, and where this machine has the directory. nil is for an engine
	// that mounts directories of this machine.
	Writable func(t *testing.T) (source, directory string)

	// HeldRuns is for an engine that starts the container of a held program, and
	// lists it as running.
	HeldRuns bool

	// Lacked reports whether the engine knows that memory is lacking in the
	// running container with these labels. nil is for an engine that asks the
	// kernel at the end.
	Lacked func(t *testing.T, labels map[string]string) bool

	// Leave starts a container that no Run of this process knows, as a crash
	// leaves it. Once end is called it exits with code 7, and stays until it
	// is removed. nil is for an engine whose containers die with the process.
	Leave func(t *testing.T, labels map[string]string) (id string, end func())

	// Left is what a container that Leave started has written by now, in whole lines. It is
	// empty where that is not kept.
	Left string

	// Caller is a process that hands the order to Die, with an engine like the
	// one under test. nil is for an engine that runs no processes, or whose
	// callers cannot be had here.
	Caller func(t *testing.T, order string) *exec.Cmd
}

// label marks the containers of one pass through the suite.
const label = "deployster.enginetest"

// suite is one pass.
type suite struct {
	engine engine.Engine
	images Images
	mark   string
}

// Run puts the engine that open returns through the suite. It closes the
// engine at the end.
func Run(t *testing.T, open func(t *testing.T) engine.Engine, images Images) {
	s := &suite{engine: open(t), images: images, mark: rand.Text()}
	t.Cleanup(func() {
		if err := s.engine.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	t.Run("cases", func(t *testing.T) {
		for _, c := range s.cases() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(t)
			})
		}
	})
	t.Run("nothing is left behind", func(t *testing.T) {
		// Docker, when it loses the end of a container that is killed while it starts, removes
		// it later than a caller waits.
		waittest.Until(t, func() bool { return len(s.list(t, map[string]string{label: s.mark})) == 0 }, "no container is left behind")
	})
}

type testCase struct {
	name string
	run  func(*testing.T)
}

func (s *suite) cases() []testCase {
	cases := s.commonCases()
	if !s.images.InMemory {
		cases = append(cases, s.kernelCases()...)
	}
	if s.images.OneNetwork {
		cases = append(cases, testCase{"networks that are not to be had are refused", s.testOtherNetworks})
	} else if !s.images.InMemory {
		cases = append(cases, s.networkCases()...)
	}
	if s.images.Works {
		cases = append(cases, testCase{"a container has a work directory of its own", s.testWork})
	}
	if s.images.Caller != nil {
		cases = append(cases, testCase{"a program whose caller is killed has its whole input or never starts", s.testKilledCaller})
	}
	if s.images.Caller != nil && !s.images.Unkept {
		cases = append(cases, testCase{"what a program writes whose caller is killed is kept, or the program ends", s.testKept},
			testCase{"of many short lines as much is kept as is promised", s.testKeptBounds})
	}
	if !s.images.InMemory && !s.images.NoLimits {
		cases = append(cases, s.limitCases()...)
	}
	return cases
}

func (s *suite) commonCases() []testCase {
	return []testCase{
		{"the engine says who it is", s.testInfo},
		{"an image is found by name and by id", s.testImage},
		{"an unknown image is an error, not an exit", s.testNoImage},
		{"an image tar is loaded, anything else refused", s.testLoad},

		{"20 MB through stdin and stdout arrive whole", s.testEcho},
		{"no stdin is an empty stdin", s.testEmptyStdin},
		{"a large stdin that nobody reads blocks nothing", s.testUnreadStdin},
		{"a container ends though its stdin is still withheld", s.testWithheldStdin},
		{"a container starts before its stdin is known", s.testLateStdin},
		{"stdin that cannot be read ends the run", s.testBrokenStdin},
		{"stdout and stderr are kept apart", s.testTwoStreams},
		{"streams that nobody wants are dropped", s.testNilStreams},
		{"a writer that refuses ends an endless printer", s.testRefusingWriter},

		{"exit codes are data", s.testExitCodes},
		{"death by signal is 128 and the signal", s.testSignal},
		{"entrypoint, arguments and the image's own", s.testCommand},
		{"environment, directory and user", s.testSurroundings},
		{"an entrypoint that is not there is an error naming it", s.testNoEntrypoint},

		{"mounts are read-only or writable as asked", s.testMounts},
		{"a writable mount may lie inside a read-only one", s.testNestedMounts},
		{"a mount source may be a symbolic link", s.testLinkedSource},
		{"a hidden directory is empty and stays so", s.testHidden},
		{"a mount may lie inside a hidden directory", s.testMountInHidden},
		{"a missing mount source is an error and stays missing", s.testMissingSource},

		{"a held program starts when it is released", s.testHold},
		{"a held program whose run is cancelled never starts", s.testHoldCancelled},
		{"a held program has its whole time from the release on", s.testHoldTimeout},
		{"a hold that is over holds nothing", s.testHoldOver},
		{"a held container that is removed does not succeed", s.testHoldRemoved},

		{"an input that is relied on arrives whole", s.testWhole},
		{"a program that relies on an input that fails never starts", s.testBrokenWhole},
		{"a program that relies on an input that is withheld never starts", s.testWithheldWhole},

		{"a timeout kills and removes", s.testTimeout},
		{"a cancel kills and removes", s.testCancel},
		{"a cancelled context runs nothing", s.testCancelledBefore},
		{"containers are found by label and removed", s.testContainers},
		{"what a crash left behind is waited for and removed", s.testLeftBehind},
		{"unknown containers", s.testUnknownContainer},
		{"what is kept of a container's output is told while it runs and after", s.testLogs},
		{"sixteen at once do not mix", s.testConcurrent},
	}
}

func (s *suite) kernelCases() []testCase {
	return []testCase{
		{"users and groups are looked up in the image", s.testUsers},
		{"an unknown user is an error naming it", s.testUnknownUser},
		{"PATH and HOME have their usual values", s.testDefaults},
		{"the program is process 1 and ignores no signal", s.testSignals},
		{"an argument or variable of 1 MB is an error", s.testTooLong},
		{"what a run writes is absent in the next", s.testFreshRoot},
		{"the machine's devices cannot be made into files", s.testMknod},
		{"root has no more capabilities than on any engine", s.testCapabilities},
	}
}

func (s *suite) networkCases() []testCase {
	return []testCase{
		{"network none leads nowhere", s.testNetworkNone},
		{"what is offline has no network", s.testOffline},
		{"network host is the host's", s.testNetworkHost},
	}
}

func (s *suite) limitCases() []testCase {
	return []testCase{
		{"a program that takes more memory than it may is killed", s.testMemory},
		{"the end of a child for lack of memory is reported", s.testMemoryOfChild},
		{"processes are limited", s.testPids},
	}
}

// spec is a run of the probe with the given arguments.
func (s *suite) spec(args ...string) engine.Spec {
	return engine.Spec{
		Image:   s.images.Probe,
		Args:    args,
		Network: s.images.Network,
		Offline: true,
		Labels:  map[string]string{label: s.mark},
	}
}

// result is the result of a run.
type result struct {
	exit           engine.Exit
	err            error
	stdout, stderr string
}

// try runs a spec and returns whatever happens.
func (s *suite) try(t *testing.T, spec engine.Spec, stdin io.Reader) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	exit, err := s.engine.Run(waittest.Context(t), spec, engine.IO{Stdin: stdin, Stdout: &stdout, Stderr: &stderr})
	return result{exit: exit, err: err, stdout: stdout.String(), stderr: stderr.String()}
}

// succeed runs a spec, which must end with code 0, and returns its stdout.
func (s *suite) succeed(t *testing.T, spec engine.Spec, stdin io.Reader) string {
	t.Helper()
	r := s.try(t, spec, stdin)
	if r.err != nil || r.exit.Code != 0 {
		t.Fatalf("run of %q: exit %+v, error %v\nstderr: %s", spec.Args, r.exit, r.err, r.stderr)
	}
	return r.stdout
}

// refuse runs a spec, which must be an error that contains all the texts.
func (s *suite) refuse(t *testing.T, spec engine.Spec, texts ...string) error {
	t.Helper()
	r := s.try(t, spec, nil)
	if r.err == nil {
		t.Fatalf("run of %q in image %q ended with %+v, want an error", spec.Args, spec.Image, r.exit)
	}
	for _, text := range texts {
		if !strings.Contains(r.err.Error(), text) {
			t.Errorf("error %q does not say %q", r.err, text)
		}
	}
	return r.err
}

// writable makes a directory that a container can have mounted to write to.
func (s *suite) writable(t *testing.T) (source, directory string) {
	t.Helper()
	if s.images.Writable != nil {
		return s.images.Writable(t)
	}
	directory = t.TempDir()
	return directory, directory
}

func (s *suite) list(t *testing.T, labels map[string]string) []engine.Container {
	t.Helper()
	containers, err := s.engine.Containers(waittest.Context(t), labels)
	if err != nil {
		t.Fatalf("Containers: %v", err)
	}
	return containers
}

// background is a run that is under way.
type background struct {
	stdin  *io.PipeWriter
	ready  chan struct{} // closed at the first output
	done   chan struct{} // closed at the end, when result holds
	cancel context.CancelFunc
	result result
}

// start begins a run whose stdin is withheld until it is written to or closed.
func (s *suite) start(t *testing.T, spec engine.Spec) *background {
	t.Helper()
	ctx, cancel := context.WithCancel(waittest.Context(t))
	reader, writer := io.Pipe()
	b := &background{stdin: writer, ready: make(chan struct{}), done: make(chan struct{}), cancel: cancel}
	t.Cleanup(func() {
		cancel()
		_ = writer.Close()
		<-b.done
	})
	go func() {
		defer close(b.done)
		b.result.exit, b.result.err = s.engine.Run(ctx, spec, engine.IO{Stdin: reader, Stdout: &announcer{ready: b.ready}})
	}()
	return b
}

// running starts a container that hangs, and returns once it does.
func (s *suite) running(t *testing.T, labels map[string]string) *background {
	t.Helper()
	spec := s.spec("hang")
	for key, value := range labels {
		spec.Labels[key] = value
	}
	b := s.start(t, spec)
	b.awaitOutput(t)
	return b
}

// awaitOutput returns once the container has written something.
func (b *background) awaitOutput(t *testing.T) {
	t.Helper()
	select {
	case <-b.ready:
	case <-b.done:
		t.Fatalf("the container exited without output: %+v", b.result)
	}
}

// announcer reports the first output.
type announcer struct {
	ready chan struct{}
	told  bool
}

func (a *announcer) Write(p []byte) (int, error) {
	if !a.told {
		a.told = true
		close(a.ready)
	}
	return len(p), nil
}

func decode(t *testing.T, text string) []string {
	t.Helper()
	var list []string
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("the probe wrote %q: %v", text, err)
	}
	return list
}

// errBroken is what failing readers and writers of the suite answer.
var errBroken = errors.New("broken on purpose")

// probeFailed is the code with which the probe ends when the engine did not
// let it do what it was told.
const probeFailed = probe.Failed
