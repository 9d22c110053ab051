package enginetest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/deployster-go/deployster/engine"
)

// keeping is a directory that is mounted read-only at its own path and writable
// at another, and holds one that is to be hidden at both.
func (s *suite) keeping(t *testing.T) (directory string, spec func(args ...string) engine.Spec) {
	t.Helper()
	source, directory := s.writable(t)
	for name, content := range map[string]string{"open": "for all", "kept/secret": "for nobody", "kept/work/token": "for one"} {
		file := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // the container may run as another user
			t.Fatal(err)
		}
		write(t, file, content)
	}
	return directory, func(args ...string) engine.Spec {
		spec := s.spec(args...)
		spec.Mounts = []engine.Mount{{Source: directory, Target: directory, ReadOnly: true}, {Source: source, Target: "/plug"}}
		spec.Hide = []string{filepath.Join(directory, "kept"), "/plug/kept"}
		return spec
	}
}

func (s *suite) testHidden(t *testing.T) {
	directory, spec := s.keeping(t)
	for _, at := range []string{directory, "/plug"} {
		if got := s.succeed(t, spec("read", filepath.Join(at, "open")), nil); got != "for all" {
			t.Errorf("beside what is hidden: %q", got)
		}
		for _, args := range [][]string{
			{"read", at + "/kept/secret"}, {"read", at + "/kept/work/token"}, {"read", at + "/open/../kept/secret"},
			{"write", at + "/kept/secret", "changed"}, {"write", at + "/kept/new", "made"},
		} {
			if r := s.try(t, spec(args...), nil); r.err != nil || r.exit.Code != probeFailed {
				t.Errorf("%q: exit %+v, error %v, stdout %q; want it to fail", args, r.exit, r.err, r.stdout)
			}
		}
	}
	if got := read(t, filepath.Join(directory, "kept", "secret")); got != "for nobody" {
		t.Errorf("what was hidden is now %q", got)
	}
	if _, err := os.Stat(filepath.Join(directory, "kept", "new")); !os.IsNotExist(err) {
		t.Errorf("something was made in what is hidden (%v)", err)
	}
	// Nothing of it stays: the next container may see what this one may not.
	open := spec("read", "/plug/kept/secret")
	open.Hide = nil
	if got := s.succeed(t, open, nil); got != "for nobody" {
		t.Errorf("it is hidden from a container from which it is not to be: %q", got)
	}
}

func (s *suite) testMountInHidden(t *testing.T) {
	directory, spec := s.keeping(t)
	source, work := s.writable(t)
	inside := filepath.Join(directory, "kept", "mine")
	write := spec("write", inside+"/file", "text")
	write.Mounts = append(write.Mounts, engine.Mount{Source: source, Target: inside})
	for range 2 {
		s.succeed(t, write, nil)
		if got := read(t, filepath.Join(work, "file")); got != "text" {
			t.Errorf("the container's file says %q", got)
		}
		slices.Reverse(write.Mounts) // their order must not matter
	}
	look := write
	look.Args = []string{"read", directory + "/kept/secret"}
	if r := s.try(t, look, nil); r.err != nil || r.exit.Code != probeFailed {
		t.Errorf("exit %+v, error %v, stdout %q; want the rest to be hidden", r.exit, r.err, r.stdout)
	}
	if _, err := os.Stat(inside); !os.IsNotExist(err) {
		t.Errorf("the place of the mount was made in what is hidden (%v)", err)
	}
}
