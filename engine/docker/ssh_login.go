package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The pauses between logins that are tried again.
const (
	firstPause  = 200 * time.Millisecond
	longestWait = 5 * time.Second
	refusedTime = 5 * time.Second // of a server that restarts
	socketPoll  = 10 * time.Millisecond
)

// pauses are those of a login that is tried again.
func (t *Tunnels) pauses() *pauses { return &pauses{firstPause, longestWait, t.jitter} }

// bounds are those of a login: within is that of one attempt, patience that of all attempts and the
// pauses between them.
type bounds struct{ within, patience time.Duration }

// login logs in, through the shared connection to the jump host if there is one.
func (t *tunnel) login(ctx context.Context, bounds bounds) (*session, error) {
	settings, err := t.readSettings(ctx)
	if err != nil {
		return nil, err
	}
	missed := false
	for range 2 { // the connection to the jump host may break meanwhile
		by, err := t.throughJump(ctx, settings, bounds)
		if err != nil {
			return nil, err
		}
		if by.through == nil {
			break
		}
		s, took, err := t.turn(ctx, settings, by, bounds.within)
		if err == nil {
			t.setMissed(0)
			return s, nil
		}
		broken := by.through.lost() != nil
		by.leave()
		if !isDropped(err) || isSilent(err) || ctx.Err() != nil {
			return t.withMaster(ctx, settings, err)
		}
		bounds.patience -= took
		if missed = true; !broken {
			break
		}
	}
	s, err := t.loginDirectly(ctx, settings, bounds)
	if missed && err == nil {
		t.setMissed(t.missed() + 1)
	}
	return s, err
}

// loginDirectly logs in without a shared jump host, and again if the server drops it.
func (t *tunnel) loginDirectly(ctx context.Context, settings *settings, bounds bounds) (*session, error) {
	by := t.direct(settings)
	var spent, refused time.Duration
	for pauses := t.owner.pauses(); ; {
		s, took, err := t.turn(ctx, settings, by, bounds.within)
		if err == nil {
			return s, nil
		}
		wait := pauses.length()
		spent += took + wait
		var said *sshError
		if errors.As(err, &said) && said.refused {
			refused += took + wait
		}
		// A machine that is off must not keep the others waiting for their turn.
		if !isDropped(err) || spent > bounds.patience || isSilent(err) && spent > bounds.within/2 || refused > refusedTime || ctx.Err() != nil {
			return t.withMaster(ctx, settings, err)
		}
		if !pause(ctx, nil, wait) {
			return nil, context.Cause(ctx)
		}
	}
}

// isDropped reports whether a later login may succeed.
func isDropped(err error) bool {
	var said *sshError
	return errors.As(err, &said) && said.again
}

// isCrowded reports whether the server dropped a login, as it does when there are many.
func isCrowded(err error) bool {
	var said *sshError
	return errors.As(err, &said) && said.crowded
}

// isSilent reports whether a machine did not answer in time.
func isSilent(err error) bool {
	var said *sshError
	return errors.As(err, &said) && said.silent
}

// turn makes an attempt once it is its turn. Took is the time without the wait for it.
func (t *tunnel) turn(ctx context.Context, settings *settings, by approach, within time.Duration) (s *session, took time.Duration, err error) {
	leave, err := by.enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	s, err = t.attempt(ctx, settings, by, within)
	leave(isCrowded(err))
	return s, time.Since(began), err
}

// attempt starts an ssh process and waits until it has logged in, which its control socket tells.
func (t *tunnel) attempt(ctx context.Context, settings *settings, by approach, within time.Duration) (*session, error) {
	place, err := t.owner.sockets()
	if err != nil {
		return nil, err
	}
	control, socket := place.next()
	options := append([]string{"-N"}, settings.options(within)...) // the first of several options counts
	options = append(options, "-o", "ControlMaster=yes", "-o", "StreamLocalBindUnlink=yes", "-S", strings.ReplaceAll(control, "%", "%%"))
	options = append(options, by.options...)
	process, err := startSSH(append(options, t.target.arguments()...), nil)
	if err != nil {
		return nil, err
	}
	limit, poll := time.NewTimer(within), time.NewTicker(socketPoll)
	defer limit.Stop()
	defer poll.Stop()
	for {
		select {
		case <-process.ended:
			return nil, t.completed(settings, process.failure())
		case <-ctx.Done():
			process.stop()
			return nil, context.Cause(ctx)
		case <-limit.C:
			said := process.said.text(0)
			process.stop()
			return nil, &sshError{again: true, words: strings.TrimSpace(fmt.Sprintf("ssh did not log in within %s %s", within, lastLines(said)))}
		case <-poll.C:
			if _, err := os.Lstat(control); err != nil {
				continue
			}
			s := &session{tunnel: t, settings: settings, approach: by, process: process, control: control, socket: socket, deciding: make(chan struct{}, 1)}
			if !t.owner.begin("watching ssh", s.clean) {
				process.stop()
				return nil, errTunnelsClosed
			}
			return s, nil
		}
	}
}

// stop ends the process, and waits for it.
func (p *sshProcess) stop() {
	p.end()
	<-p.ended
}

// completed adds to a failed login what ssh does not say.
func (t *tunnel) completed(settings *settings, failed *sshError) *sshError {
	failed.remedy = settings.complete(failed.remedy, t.target.socket())
	machine := first(settings.values, "hostname")
	if port := first(settings.values, "port"); port != "22" && port != "" {
		machine = "[" + machine + "]:" + port
	}
	if failed.kind == keyChanged {
		failed.remedy = fmt.Sprintf("find out why. Only if the change is right, forget the old key with `ssh-keygen -R '%s'%s`, then `deployster host trust`", cmp.Or(first(settings.values, "hostkeyalias"), machine), settings.knownHosts())
	}
	if failed.kind == loginRefused && (t.owner.env("SSH_AUTH_SOCK") == "" || first(settings.values, "identityagent") == "none") {
		if key := settings.lockedKey(); key != "" {
			failed.remedy = fmt.Sprintf("%s has a passphrase, and there is no agent: start one and add the key, with `eval $(ssh-agent)` and `ssh-add %s`", key, key)
		}
	}
	return failed
}

// withMaster uses a connection that the user has opened (ControlMaster), where a login of our own
// is refused: it may have needed a password or a code.
func (t *tunnel) withMaster(ctx context.Context, settings *settings, failed error) (*session, error) {
	var said *sshError
	path := first(settings.values, "controlpath")
	if !errors.As(failed, &said) || said.kind != loginRefused || path == "" || path == "none" {
		return nil, failed
	}
	if askAlive(ctx, path) != nil {
		return nil, failed
	}
	return &session{tunnel: t, settings: settings, approach: t.direct(settings), control: path, way: command, foreign: true, deciding: make(chan struct{}, 1)}, nil
}

// session is an ssh process that has logged in.
type session struct {
	tunnel   *tunnel
	settings *settings
	approach approach
	process  *sshProcess // nil for a connection that is the user's
	control  string      // its control socket
	socket   string      // that leads to the engine's, if it is forwarded
	foreign  bool        // the connection is the user's

	deciding chan struct{} // holds a token while the way is decided
	way      route         // once decided
}

// clean removes the sockets of the process when it has ended, and gives the jump host up.
func (s *session) clean() {
	select {
	case <-s.process.ended:
	case <-s.tunnel.ctx.Done():
		s.process.stop()
	}
	for _, path := range []string{s.control, s.socket} {
		_ = os.Remove(path)
	}
	s.approach.leave()
}

// end ends the process of a session, which may be nil.
func (s *session) end() {
	if s != nil && s.process != nil {
		s.process.end()
	}
}

// over reports whether the session has ended.
func (s *session) over() bool {
	if s.foreign {
		ctx, cancel := context.WithTimeout(s.tunnel.ctx, controlTime)
		defer cancel()
		return askAlive(ctx, s.control) != nil
	}
	return s.process.over()
}

// lost returns why the connection of the session has ended, or nil if it is there.
func (s *session) lost() error {
	if s.foreign {
		return nil
	}
	if !s.process.over() {
		ctx, cancel := context.WithTimeout(s.tunnel.ctx, controlTime)
		defer cancel()
		if err := askAlive(ctx, s.control); err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil // or it is very slow
		}
		if !s.process.within(controlTime) { // its sockets are closed: it is ending
			s.process.stop()
		}
	}
	failed := s.process.failure()
	return fmt.Errorf("%w: %s", errSessionOver, failed.words)
}

// lastLines are the last two lines of a text, in one.
func lastLines(text string) string {
	lines := slices.DeleteFunc(strings.Split(strings.ReplaceAll(text, "\r", "\n"), "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
	for i := range lines {
		lines[i] = strings.TrimRight(strings.TrimSpace(lines[i]), ".")
	}
	return strings.Join(lines[max(0, len(lines)-2):], "; ")
}
