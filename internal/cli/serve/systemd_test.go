package serve

import (
	"os"
	"strconv"
	"testing"
)

// Sockets that systemd has passed to another process are not waited for: the server would listen
// nowhere.
func TestSocketsOfSystemdAreForOneProcess(t *testing.T) {
	own := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		fds, pid  string
		activated bool
	}{
		{"1", own, true},
		{"1", "1", false},
		{"1", "", false},
		{"0", own, false},
		{"", "", false},
		{"x", own, false},
	} {
		t.Setenv("LISTEN_FDS", c.fds)
		t.Setenv("LISTEN_PID", c.pid)
		if activated() != c.activated {
			t.Errorf("LISTEN_FDS=%s LISTEN_PID=%s: it is activated: %v", c.fds, c.pid, !c.activated)
		}
	}
}
