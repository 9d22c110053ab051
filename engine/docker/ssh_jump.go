package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	dockerssh "github.com/docker/cli/cli/connhelper/ssh"

	"github.com/deployster-go/deployster/internal/pattern"
)

// loginsThroughJump bounds the logins that are under way through one shared jump host.
const loginsThroughJump = 8

// approach is how a login reaches its machine.
type approach struct {
	gates   []*gate  // to pass in this order: that of the machine first
	options []string // of the ssh command
	through *session // with a jump host, whose tunnel is in use; nil if no connection is shared
}

// leave gives the jump host up.
func (a approach) leave() {
	if a.through != nil {
		a.through.tunnel.release()
	}
}

// enter waits for a turn at all gates. The caller must call leave with whether sshd dropped the login.
func (a approach) enter(ctx context.Context) (leave func(dropped bool), err error) {
	for i, gate := range a.gates {
		if err := gate.enter(ctx); err != nil {
			for _, passed := range a.gates[:i] {
				passed.leave(false)
			}
			return nil, err
		}
	}
	return func(dropped bool) {
		for i, gate := range a.gates {
			gate.leave(dropped && i == 0) // the others take no logins
		}
	}, nil
}

// direct leaves jump hosts to the ssh command.
func (t *tunnel) direct(settings *settings) approach {
	return approach{gates: []*gate{t.owner.gate(settings.machine, loginsAtOnce)}}
}

// The words that a shell and ssh take as they are.
var (
	plainJump = pattern.Lazy(`^(?:([A-Za-z0-9_][A-Za-z0-9_.-]*)@)?(?:([A-Za-z0-9_][A-Za-z0-9_.-]*)|\[([0-9A-Fa-f:.]+)\])(?::([0-9]{1,5}))?$`)
	plainPath = pattern.Lazy(`^[A-Za-z0-9/_.-]+$`)
)

// parseJump reads a jump host as `ssh -G` prints it. It reports false for several, and for a
// name that needs quotes.
func parseJump(text string) (target, bool) {
	parts := plainJump().FindStringSubmatch(text)
	if parts == nil || text == "none" {
		return target{}, false
	}
	to := target{spec: dockerssh.Spec{User: parts[1], Host: parts[2] + parts[3], Port: parts[4]}}
	return to, to.arguments() != nil
}

// mostMissed is how many logins in a row may fail through a shared connection and succeed
// without, until the ssh command finds its own way.
const mostMissed = 2

// throughJump logs in at the jump host, unless that is done, and returns the approach through that
// connection. Its session is nil if the ssh command must find its own way: there is no jump host
// or several, or the jump host refused the login.
func (t *tunnel) throughJump(ctx context.Context, settings *settings, bounds bounds) (approach, error) {
	to, is := parseJump(first(settings.values, "proxyjump"))
	if !is || t.missed() >= mostMissed {
		return approach{}, nil
	}
	jump := t.owner.use(to)
	s, err := jump.carrier(ctx, bounds)
	if s != nil {
		far := net.JoinHostPort(first(settings.values, "hostname"), first(settings.values, "port"))
		gates := []*gate{
			t.owner.gate(far+" behind "+to.String(), loginsAtOnce), // private addresses are those of one jump host
			t.owner.gate("through "+to.String(), loginsThroughJump),
		}
		return approach{gates: gates, options: s.carry(bounds.within), through: s}, nil
	}
	jump.release()
	var said *sshError
	switch {
	case errors.As(err, &said) && said.again: // the ssh command's own way begins with the same login
		again := *said
		again.words = fmt.Sprintf("jump host %s: %s", to.words(), said.words)
		return approach{}, &again
	case errors.As(err, &said):
		t.setMissed(mostMissed)
		return approach{}, nil
	default:
		return approach{}, err
	}
}

// carrier logs in at a jump host. It returns nil if the jump host is itself behind another one,
// or if the path of the control socket needs quotes.
func (t *tunnel) carrier(ctx context.Context, bounds bounds) (*session, error) {
	settings, err := t.readSettings(ctx)
	if err != nil {
		return nil, err
	}
	if beyond := first(settings.values, "proxyjump"); beyond != "" && beyond != "none" {
		return nil, nil
	}
	s, err := t.session(ctx, bounds.within, bounds.patience)
	if err == nil && s.lost() != nil { // the connection broke since the login
		s, err = t.session(ctx, bounds.within, bounds.patience)
	}
	if err != nil || !plainPath().MatchString(s.control) {
		return nil, err
	}
	return s, nil
}

// carry returns the options of an ssh command that connects through the session.
func (s *session) carry(within time.Duration) []string {
	command := slices.Concat([]string{"ssh"}, s.settings.options(within),
		[]string{"-o", "ControlMaster=no", "-S", s.control, "-W", "'[%h]:%p'"}, s.tunnel.target.arguments())
	return []string{"-o", "ProxyCommand=" + strings.Join(command, " ")} // with it, ssh ignores ProxyJump
}

// missed returns how many logins in a row failed through the jump host only.
func (t *tunnel) missed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.misses
}

// setMissed records how many logins in a row failed through the jump host only.
func (t *tunnel) setMissed(count int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.misses = count
}
