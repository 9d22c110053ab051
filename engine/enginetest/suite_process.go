package enginetest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/waittest"
)

func (s *suite) testInfo(t *testing.T) {
	info, err := s.engine.Info(waittest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if info.Name == "" || info.Version == "" || info.OS == "" || info.Arch == "" || info.Address == "" {
		t.Errorf("incomplete: %+v", info)
	}
	if strings.Contains(info.Arch, "x86") || info.Arch == "aarch64" {
		t.Errorf("architecture %q is not one of Go's names", info.Arch)
	}
	if info.Works != s.images.Works || info.Works && !info.Remote {
		t.Errorf("it says of work directories: %+v", info)
	}
}

// testWork has containers write where they have a work directory, in one that they only read and
// beside all else: whoever they run as, and each finds its own empty.
func (s *suite) testWork(t *testing.T) {
	around := t.TempDir()
	for _, user := range []string{"", "1234"} {
		for range 2 {
			spec := s.spec("write", around+"/work/mark", "mine")
			spec.User, spec.Work = user, around+"/work"
			spec.Mounts = []engine.Mount{{Source: around, Target: around, ReadOnly: true}}
			s.succeed(t, spec, nil)
			spec.Args = []string{"read", around + "/work/mark"}
			if r := s.try(t, spec, nil); r.exit.Code == 0 {
				t.Errorf("as user %q: it finds %q, which another container wrote", user, r.stdout)
			}
		}
	}
	if entries, err := os.ReadDir(around); err != nil || len(entries) > 0 {
		t.Errorf("this machine has it: %v, %v", entries, err)
	}
}

func (s *suite) testImage(t *testing.T) {
	for _, policy := range []engine.PullPolicy{engine.PullMissing, engine.PullNever} {
		byName, err := s.engine.Image(waittest.Context(t), s.images.Probe, policy, nil)
		if err != nil {
			t.Fatalf("policy %s: %v", policy, err)
		}
		if byName.Ref != s.images.Probe || !strings.HasPrefix(byName.ID, "sha256:") || byName.OS == "" || byName.Arch == "" {
			t.Errorf("incomplete: %+v", byName)
		}
		byID, err := s.engine.Image(waittest.Context(t), byName.ID, policy, nil)
		if err != nil {
			t.Fatalf("policy %s, by id: %v", policy, err)
		}
		if byID.ID != byName.ID {
			t.Errorf("by name it is %s, by id %s", byName.ID, byID.ID)
		}
		spec := s.spec("exit", "0")
		spec.Image = byName.ID
		s.succeed(t, spec, nil)
	}
	if _, err := s.engine.Image(waittest.Context(t), s.images.Probe, "sometimes", nil); err == nil {
		t.Error("a pull policy that does not exist is accepted")
	}
}

func (s *suite) testNoImage(t *testing.T) {
	for _, ref := range []string{
		"enginetest.example/no/such:image",
		"enginetest.example/no/such@sha256:" + strings.Repeat("0", 64),
		"sha256:" + strings.Repeat("0", 64),
	} {
		if _, err := s.engine.Image(waittest.Context(t), ref, engine.PullNever, nil); !errors.Is(err, engine.ErrNoImage) {
			t.Errorf("Image of %q: %v; want ErrNoImage", ref, err)
		}
		spec := s.spec("exit", "0")
		spec.Image = ref
		if err := s.refuse(t, spec, ref); !errors.Is(err, engine.ErrNoImage) {
			t.Errorf("Run of %q: %v; want ErrNoImage", ref, err)
		}
	}
	if _, err := s.engine.Image(waittest.Context(t), "sha256:"+strings.Repeat("0", 64), engine.PullAlways, nil); !errors.Is(err, engine.ErrNoImage) {
		t.Errorf("an id that is not there: %v; want ErrNoImage, as ids are never pulled", err)
	}
}

func (s *suite) testLoad(t *testing.T) {
	before, err := s.engine.Image(waittest.Context(t), s.images.Probe, engine.PullNever, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.engine.Load(waittest.Context(t), strings.NewReader(string(s.images.Tar))); err != nil {
		t.Fatalf("Load: %v", err)
	}
	after, err := s.engine.Image(waittest.Context(t), s.images.Probe, engine.PullNever, nil)
	if err != nil || after.ID != before.ID {
		t.Errorf("the same image loaded again was %s and is %s (%v)", before.ID, after.ID, err)
	}
	for name, content := range map[string]string{
		"no tar":     "this is no tar at all",
		"empty":      "",
		"a part":     string(s.images.Tar[:len(s.images.Tar)/2]),
		"other zips": "PK\x03\x04",
	} {
		if err := s.engine.Load(waittest.Context(t), strings.NewReader(content)); err == nil {
			t.Errorf("%s: loaded without an error", name)
		}
	}
}

func (s *suite) testExitCodes(t *testing.T) {
	for text, code := range map[string]int{"0": 0, "1": 1, "2": 2, "42": 42, "127": 127, "137": 137, "255": 255} {
		r := s.try(t, s.spec("exit", text), nil)
		if r.err != nil || r.exit != (engine.Exit{Code: code}) {
			t.Errorf("exit %s: %+v, error %v", text, r.exit, r.err)
		}
	}
}

func (s *suite) testSignal(t *testing.T) {
	r := s.try(t, s.spec("die"), nil)
	if r.err != nil || r.exit.Code != 128+9 {
		t.Errorf("exit %+v, error %v; want code 137", r.exit, r.err)
	}
}

func (s *suite) testCommand(t *testing.T) {
	for _, c := range []struct {
		name       string
		entrypoint string
		args       []string
		want       []string // what the probe, told to, says its arguments are
		code       int
	}{
		{name: "neither: the image's entrypoint and command", want: []string{"of", "the image"}},
		{name: "arguments replace the command", args: []string{"args", "one", "two words", ""}, want: []string{"one", "two words", ""}},
		{name: "the entrypoint drops the command", entrypoint: probePath, code: 64},
		{name: "both", entrypoint: probePath, args: []string{"args", "$HOME", "*"}, want: []string{"$HOME", "*"}},
		{name: "no arguments is not the same as none given", args: []string{}, code: 64},
	} {
		spec := s.spec(c.args...)
		spec.Entrypoint, spec.Args = c.entrypoint, c.args
		r := s.try(t, spec, nil)
		if r.err != nil || r.exit.Code != c.code {
			t.Errorf("%s: exit %+v, error %v, stderr %q; want code %d", c.name, r.exit, r.err, r.stderr, c.code)
			continue
		}
		if c.code == 0 {
			if got := decode(t, r.stdout); !slices.Equal(got, c.want) {
				t.Errorf("%s: arguments %q, want %q", c.name, got, c.want)
			}
		}
	}
}

func (s *suite) testSurroundings(t *testing.T) {
	spec := s.spec("env")
	spec.Env = []string{"PROBE_BOTH=spec", "PROBE_SPEC=a=b c", "PROBE_EMPTY="}
	environment := decode(t, s.succeed(t, spec, nil))
	for _, want := range []string{"PROBE_IMAGE=image", "PROBE_BOTH=spec", "PROBE_SPEC=a=b c", "PROBE_EMPTY="} {
		if !slices.Contains(environment, want) {
			t.Errorf("%q is not in the environment %q", want, environment)
		}
	}
	if slices.Contains(environment, "PROBE_BOTH=image") {
		t.Errorf("the spec does not replace the image's variable: %q", environment)
	}

	if got := s.succeed(t, s.spec("cwd"), nil); got != "/image/dir" {
		t.Errorf("the image's directory is %q", got)
	}
	spec = s.spec("cwd")
	spec.WorkDir = "/spec/dir"
	if got := s.succeed(t, spec, nil); got != "/spec/dir" {
		t.Errorf("the spec's directory is %q", got)
	}

	if got := s.succeed(t, s.spec("user"), nil); got != "0:0" {
		t.Errorf("the image's user is %q", got)
	}
	spec = s.spec("user")
	spec.User = "1234:5678"
	if got := s.succeed(t, spec, nil); got != "1234:5678" {
		t.Errorf("the spec's user is %q", got)
	}
}

func (s *suite) testNoEntrypoint(t *testing.T) {
	spec := s.spec()
	spec.Entrypoint = "/no/such/program"
	ownFault(t, s.refuse(t, spec, "/no/such/program", s.images.Probe))
}

func (s *suite) testMounts(t *testing.T) {
	source, directory := s.writable(t)
	write(t, filepath.Join(directory, "greeting"), "hello")

	mounted := func(readOnly bool, args ...string) engine.Spec {
		spec := s.spec(args...)
		spec.Mounts = []engine.Mount{{Source: source, Target: "/mnt/here", ReadOnly: readOnly}}
		if readOnly {
			spec.Mounts[0].Source = directory
		}
		return spec
	}
	for _, readOnly := range []bool{true, false} {
		if got := s.succeed(t, mounted(readOnly, "read", "/mnt/here/greeting"), nil); got != "hello" {
			t.Errorf("read-only %v: the file says %q", readOnly, got)
		}
	}
	r := s.try(t, mounted(true, "write", "/mnt/here/greeting", "changed"), nil)
	if r.err != nil || r.exit.Code != probeFailed {
		t.Errorf("writing to a read-only mount: exit %+v, error %v", r.exit, r.err)
	}
	if got := read(t, filepath.Join(directory, "greeting")); got != "hello" {
		t.Errorf("a read-only mount was written to: %q", got)
	}
	s.succeed(t, mounted(false, "write", "/mnt/here/new", "made inside"), nil)
	if got := read(t, filepath.Join(directory, "new")); got != "made inside" {
		t.Errorf("the container's file says %q", got)
	}

	single := s.spec("read", "/one file")
	single.Mounts = []engine.Mount{{Source: filepath.Join(directory, "greeting"), Target: "/one file", ReadOnly: true}}
	if got := s.succeed(t, single, nil); got != "hello" {
		t.Errorf("the mounted file says %q", got)
	}
}

func (s *suite) testLinkedSource(t *testing.T) {
	directory := t.TempDir()
	file, link := filepath.Join(directory, "real", "file"), filepath.Join(directory, "link")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // the container may run as another user
		t.Fatal(err)
	}
	write(t, file, "behind the link")
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	spec := s.spec("read", "/mnt/file")
	spec.Mounts = []engine.Mount{{Source: link, Target: "/mnt", ReadOnly: true}}
	if got := s.succeed(t, spec, nil); got != "behind the link" {
		t.Errorf("the file says %q", got)
	}
}

func (s *suite) testNestedMounts(t *testing.T) {
	workspace := t.TempDir()
	inner := filepath.Join(workspace, "work")
	if err := os.Mkdir(inner, 0o755); err != nil { //nolint:gosec // the container may run as another user
		t.Fatal(err)
	}
	source := inner
	if s.images.Writable != nil {
		source, _ = s.images.Writable(t)
	}
	mounts := []engine.Mount{
		{Source: workspace, Target: workspace, ReadOnly: true},
		{Source: source, Target: inner},
	}
	for range 2 {
		for name, code := range map[string]int{filepath.Join(workspace, "a"): probeFailed, filepath.Join(inner, "b"): 0} {
			spec := s.spec("write", name, "text")
			spec.Mounts = mounts
			if r := s.try(t, spec, nil); r.err != nil || r.exit.Code != code {
				t.Errorf("writing %s: exit %+v, error %v; want code %d", name, r.exit, r.err, code)
			}
		}
		slices.Reverse(mounts) // their order must not matter
	}
}

func (s *suite) testMissingSource(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "not", "there")
	spec := s.spec("exit", "0")
	spec.Mounts = []engine.Mount{{Source: missing, Target: "/mnt"}}
	ownFault(t, s.refuse(t, spec, missing))
	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the missing source is there now (%v)", err)
	}
}

// ownFault fails unless an error says that no container can be made of what was to be run.
func ownFault(t *testing.T, err error) {
	t.Helper()
	if !errors.As(err, new(*engine.SpecError)) {
		t.Errorf("it is not said to be the fault of what is to be run: %v", err)
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil { //nolint:gosec // the container may run as another user
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
