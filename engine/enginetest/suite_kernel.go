package enginetest

import (
	"encoding/json"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine"
)

func (s *suite) testUsers(t *testing.T) {
	for _, c := range []struct {
		user     string
		uid, gid int
		groups   []int // in addition to gid
		home     string
	}{
		{user: "", uid: 0, gid: 0, home: "/root"},
		{user: "crew", uid: 1500, gid: 1600, groups: []int{1700, 1800}, home: "/home/crew"},
		{user: "1500", uid: 1500, gid: 1600, groups: []int{1700, 1800}, home: "/home/crew"},
		{user: "crew:audio", uid: 1500, gid: 1700, home: "/home/crew"},
		{user: "crew:1234", uid: 1500, gid: 1234, home: "/home/crew"},
		{user: "4321", uid: 4321, gid: 0, home: "/"},
		{user: "4321:video", uid: 4321, gid: 1800, home: "/"},
	} {
		spec := s.spec("identity")
		spec.User = c.user
		var is struct {
			UID, GID int
			Groups   []int
			Home     string
		}
		if err := json.Unmarshal([]byte(s.succeed(t, spec, nil)), &is); err != nil {
			t.Fatal(err)
		}
		others := slices.DeleteFunc(is.Groups, func(id int) bool { return id == is.GID })
		slices.Sort(others)
		if is.UID != c.uid || is.GID != c.gid || !slices.Equal(others, c.groups) || is.Home != c.home {
			t.Errorf("user %q is %+v, want %+v", c.user, is, c)
		}
	}
}

func (s *suite) testUnknownUser(t *testing.T) {
	for _, user := range []string{"nobody-here", "crew:no-such-group"} {
		spec := s.spec("exit", "0")
		spec.User = user
		_ = s.refuse(t, spec, user[strings.Index(user, ":")+1:], s.images.Probe)
	}
}

func (s *suite) testDefaults(t *testing.T) {
	const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if got := decode(t, s.succeed(t, s.spec("env"), nil)); !slices.Contains(got, path) {
		t.Errorf("environment %q, want %s", got, path)
	}
	spec := s.spec("env")
	spec.Env = []string{"PATH=/elsewhere:/", "HOME=/mine"}
	spec.Entrypoint = "probe" // found by that PATH
	got := decode(t, s.succeed(t, spec, nil))
	for _, want := range spec.Env {
		if !slices.Contains(got, want) {
			t.Errorf("environment %q, want %s", got, want)
		}
	}
}

func (s *suite) testSignals(t *testing.T) {
	status := s.succeed(t, s.spec("read", "/proc/self/status"), nil)
	if !s.images.Supervised && !strings.Contains(status, "\nPid:\t1\n") {
		t.Errorf("the program is not process 1:\n%s", status)
	}
	_, ignored, _ := strings.Cut(status, "\nSigIgn:\t")
	ignored, _, _ = strings.Cut(ignored, "\n")
	mask, err := strconv.ParseUint(ignored, 16, 64)
	// Whatever the C library has spawned ignores 32 and 33, which are its own.
	if mask &^= 1<<31 | 1<<32; err != nil || mask != 0 {
		t.Errorf("the program ignores signals: %q, %v", ignored, err)
	}
}

func (s *suite) testTooLong(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	argument, variable := s.spec("args", long), s.spec("exit", "0")
	variable.Env = []string{"LONG=" + long}
	for name, spec := range map[string]engine.Spec{"argument": argument, "variable": variable} {
		r := s.try(t, spec, nil)
		if r.err == nil {
			t.Errorf("%s of 1 MB: exit %+v, stderr %.200q; want an error", name, r.exit, r.stderr)
		} else if len(r.err.Error()) > 2000 || !strings.Contains(r.err.Error(), "too long") {
			t.Errorf("%s of 1 MB: %.2000q", name, r.err.Error())
		}
	}
}

func (s *suite) testFreshRoot(t *testing.T) {
	s.succeed(t, s.spec("write", "/tmp/left", "here"), nil)
	if r := s.try(t, s.spec("read", "/tmp/left"), nil); r.err != nil || r.exit.Code != probeFailed {
		t.Errorf("exit %+v, error %v, stdout %q; want the file to be gone", r.exit, r.err, r.stdout)
	}
}

// listen accepts connections on this machine's loopback until the test ends.
func listen(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func (s *suite) testNetworkNone(t *testing.T) {
	spec := s.spec()
	spec.Network = "none"
	s.leadsNowhere(t, spec)
}

func (s *suite) testOffline(t *testing.T) {
	spec := s.spec()
	spec.Network, spec.Offline = "", true
	s.leadsNowhere(t, spec)
	spec.Network, spec.Args = "host", []string{"connect", listen(t)}
	s.succeed(t, spec, nil) // which was asked for
}

// leadsNowhere checks that containers have no network but their own loopback.
func (s *suite) leadsNowhere(t *testing.T, spec engine.Spec) {
	t.Helper()
	spec.Args = []string{"connect", listen(t)}
	if r := s.try(t, spec, nil); r.err != nil || r.exit.Code != probeFailed {
		t.Errorf("connecting to the host: exit %+v, error %v; want it to fail", r.exit, r.err)
	}
	spec.Args = []string{"read", "/proc/net/dev"}
	for line := range strings.Lines(s.succeed(t, spec, nil)) {
		if name, _, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) != "lo" {
			t.Errorf("there is an interface other than lo: %s", line)
		}
	}
}

func (s *suite) testNetworkHost(t *testing.T) {
	spec := s.spec("connect", listen(t))
	spec.Network = "host"
	s.succeed(t, spec, nil)
}

func (s *suite) testOtherNetworks(t *testing.T) {
	for _, network := range []string{"none", "host", "bridge"} {
		spec := s.spec("exit", "0")
		spec.Network = network
		ownFault(t, s.refuse(t, spec, network))
	}
}

func (s *suite) testMknod(t *testing.T) {
	source, directory := s.writable(t)
	spec := s.spec("mknod", "/mnt/disk")
	spec.Mounts = []engine.Mount{{Source: source, Target: "/mnt"}}
	if r := s.try(t, spec, nil); r.err != nil || r.exit.Code != probeFailed || !strings.Contains(r.stderr, "operation not permitted") {
		t.Errorf("a block device in a writable mount: exit %+v, error %v, stderr %q; want it to be forbidden", r.exit, r.err, r.stderr)
	}
	spec.Args = []string{"mknod", "/tmp/disk"}
	if r := s.try(t, spec, nil); r.err != nil || r.exit.Code != probeFailed {
		t.Errorf("a block device in /tmp: exit %+v, error %v; want it to be forbidden", r.exit, r.err)
	}
	if left, err := os.ReadDir(directory); err != nil || len(left) > 0 {
		t.Errorf("left in the mount: %v, %v", left, err)
	}
}

func (s *suite) testCapabilities(t *testing.T) {
	// CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE
	const want = 1<<0 | 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<10
	status := s.succeed(t, s.spec("read", "/proc/self/status"), nil)
	for _, set := range []string{"CapPrm", "CapEff", "CapBnd"} {
		_, value, _ := strings.Cut(status, "\n"+set+":\t")
		value, _, _ = strings.Cut(value, "\n")
		if got, err := strconv.ParseUint(value, 16, 64); err != nil || got != want {
			t.Errorf("%s is %s, want %016x (%v)", set, value, want, err)
		}
	}
}
