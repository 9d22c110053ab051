package enginetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/waittest"
)

// saving is a spec whose program relies on its input and keeps it in a file.
func (s *suite) saving(t *testing.T) (spec engine.Spec, kept string) {
	t.Helper()
	source, directory := s.writable(t)
	spec = s.spec("save", "/mnt/kept")
	spec.Mounts = []engine.Mount{{Source: source, Target: "/mnt"}}
	spec.Whole = true
	return spec, filepath.Join(directory, "kept")
}

// wholeSizes are those of an input that is nothing, that everything on the way
// takes at once, and that has to be read for the rest to follow.
var wholeSizes = []int{0, 1000, 1 << 20}

func (s *suite) testWhole(t *testing.T) {
	for _, size := range wholeSizes {
		for _, hold := range []<-chan struct{}{nil, closed()} {
			spec := s.spec("cat")
			spec.Whole, spec.Hold = true, hold
			sent := strings.Repeat("x", size)
			if got := s.succeed(t, spec, strings.NewReader(sent)); got != sent {
				t.Errorf("held %v: sent %d bytes, received %d", hold != nil, size, len(got))
			}
		}
	}
	spec := s.spec("exit", "3") // without reading it
	spec.Whole = true
	if r := s.try(t, spec, strings.NewReader(strings.Repeat("x", 1<<20))); r.err != nil || r.exit.Code != 3 {
		t.Errorf("exit %+v, error %v; want code 3", r.exit, r.err)
	}
	spec.Entrypoint = "/no/such/program"
	if r := s.try(t, spec, strings.NewReader("x")); r.err == nil ||
		!strings.Contains(r.err.Error(), "/no/such/program") || !strings.Contains(r.err.Error(), s.images.Probe) {
		t.Errorf("exit %+v, error %v; want one that names program and image", r.exit, r.err)
	}
}

func (s *suite) testBrokenWhole(t *testing.T) {
	for _, size := range wholeSizes {
		for _, hold := range []<-chan struct{}{nil, closed()} {
			spec, kept := s.saving(t)
			spec.Hold = hold
			r := s.try(t, spec, io.MultiReader(strings.NewReader(strings.Repeat("x", size)), iotest.ErrReader(errBroken)))
			if !errors.Is(r.err, errBroken) {
				t.Errorf("after %d bytes, held %v: exit %+v, error %v; want the reader's error", size, hold != nil, r.exit, r.err)
			}
			if _, err := os.Stat(kept); !os.IsNotExist(err) {
				t.Errorf("after %d bytes, held %v: it ran (%v)", size, hold != nil, err)
			}
		}
	}
}

func (s *suite) testWithheldWhole(t *testing.T) {
	for _, size := range wholeSizes {
		spec, kept := s.saving(t)
		b := s.start(t, spec)
		if _, err := io.WriteString(b.stdin, strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
		b.cancel()
		<-b.done
		if !errors.Is(b.result.err, context.Canceled) {
			t.Errorf("after %d bytes: exit %+v, error %v; want context.Canceled", size, b.result.exit, b.result.err)
		}
		if _, err := os.Stat(kept); !os.IsNotExist(err) {
			t.Errorf("after %d bytes: it ran (%v)", size, err)
		}
	}
}

func (s *suite) testKilledCaller(t *testing.T) {
	names := map[string]bool{} // of an input that is nothing, several orders are the same
	for _, size := range wholeSizes {
		for _, o := range []order{
			{Given: 0}, {Given: 0, Held: true}, {Given: size / 2}, {Given: size / 2, After: 50 * time.Millisecond, Held: true},
			{Given: max(0, size-1)}, {Given: size}, {Given: size, After: time.Millisecond}, {Given: size, After: 300 * time.Millisecond},
		} {
			o.Size = size
			name := fmt.Sprintf("given %d of %d bytes, after %s, held %t", o.Given, o.Size, o.After, o.Held)
			if names[name] {
				continue
			}
			names[name] = true
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s.killCaller(t, o)
			})
		}
	}
}

func (s *suite) killCaller(t *testing.T, o order) {
	spec, kept := s.saving(t)
	mark := rand.Text()
	o.Image, o.Args, o.Network, o.Mounts = spec.Image, spec.Args, spec.Network, spec.Mounts
	o.Labels = maps.Clone(spec.Labels)
	o.Labels["caller"] = mark
	encoded, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	caller := s.images.Caller(t, string(encoded))
	if said, err := caller.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the caller was not killed: %v\n%s", err, said)
	}
	mine := map[string]string{label: s.mark, "caller": mark}
	waittest.Until(t, func() bool {
		for _, c := range s.list(t, mine) {
			if c.Running {
				return false
			}
		}
		return true
	}, "what the caller left has ended")
	for _, c := range s.list(t, mine) {
		if err := s.engine.Remove(waittest.Context(t), c.ID); err != nil {
			t.Error(err)
		}
	}
	content, err := os.ReadFile(kept)
	switch {
	case err != nil && !os.IsNotExist(err):
		t.Error(err)
	case err == nil && o.Given < o.Size:
		t.Errorf("it ran, with %s", content)
	case err == nil && len(content) > 0 && string(content) != fmt.Sprintln(o.Size): // it may be killed before it has written
		t.Errorf("it ran, with %s", content)
	}
}

// order is what a caller is to do: run a program, and be killed. If it relies on its input,
// some of that is given before.
type order struct {
	Image   string
	Args    []string
	Network string
	Mounts  []engine.Mount
	Labels  map[string]string
	Size    int // of the input
	Given   int
	After   time.Duration // from when that is given
	Held    bool          // until its release, which is at once
	Kept    int64         // if set, there is no input, and the caller is killed at the first output
}

// Die does what Images.Caller is to do, and returns only if it cannot.
func Die(e engine.Engine, encoded string) error {
	var o order
	if err := json.Unmarshal([]byte(encoded), &o); err != nil {
		return err
	}
	spec := engine.Spec{Image: o.Image, Args: o.Args, Network: o.Network, Offline: true, Mounts: o.Mounts, Labels: o.Labels, Whole: true}
	if o.Held {
		spec.Hold = closed()
	}
	streams := engine.IO{Stdin: &dying{order: o, rest: bytes.Repeat([]byte("x"), o.Given)}}
	if o.Kept > 0 {
		spec.Whole, spec.Kept = false, o.Kept
		streams = engine.IO{Stdout: killing{}}
	}
	time.AfterFunc(waittest.Limit, func() { panic("it cannot be killed at the right moment, which it does not reach") })
	_, err := e.Run(context.Background(), spec, streams)
	if err == nil {
		<-time.After(o.After + time.Second) // it ended before it could be killed, which is all right
		suicide()
	}
	return err
}

// dying is an input whose reader is killed.
type dying struct {
	order
	rest []byte
}

func (d *dying) Read(into []byte) (int, error) {
	if len(d.rest) > 0 {
		n := copy(into, d.rest)
		d.rest = d.rest[n:]
		return n, nil
	}
	time.AfterFunc(d.After, suicide)
	if d.Given < d.Size {
		select {}
	}
	return 0, io.EOF
}

// killing is an output whose first writer is killed.
type killing struct{}

func (killing) Write([]byte) (int, error) {
	suicide()
	return 0, nil
}

func suicide() {
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {}
}
