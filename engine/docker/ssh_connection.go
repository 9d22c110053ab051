package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
)

// dial returns a connection to the engine, and the way that it takes. The first one of a
// session finds out which way there is.
func (s *session) dial(ctx context.Context) (net.Conn, route, error) {
	select {
	case s.deciding <- struct{}{}:
	case <-ctx.Done():
		return nil, undecided, context.Cause(ctx)
	}
	way := s.way
	if way != undecided {
		<-s.deciding
		return s.by(ctx, way)
	}
	defer func() { <-s.deciding }()
	conn, way, err := s.decide(ctx)
	if err == nil {
		s.way = way
	}
	return conn, way, err
}

func (s *session) by(ctx context.Context, way route) (net.Conn, route, error) {
	var conn net.Conn
	var err error
	if way == forwarded {
		conn, err = s.dialSocket(ctx)
	} else {
		conn, err = s.dialCommand(ctx)
	}
	return conn, way, err
}

// decide tries the forwarded socket, and the docker command if the server forbids forwarding
// or cannot connect to the socket, which most servers do not tell apart. The command's own words
// say more, and it may know of another socket.
func (s *session) decide(ctx context.Context) (net.Conn, route, error) {
	var refusal string
	if !s.tunnel.isForbidden() && !s.foreign {
		if err := forwardSocket(ctx, s.control, s.socket, s.tunnel.target.socket()); err != nil {
			if lost := s.lost(); lost != nil {
				return nil, undecided, lost
			}
			return nil, undecided, err
		}
		conn, refused, err := s.probeSocket(ctx)
		if err == nil {
			return conn, forwarded, nil
		}
		if refused == "" {
			return nil, undecided, err
		}
		if refusal = refused; isForbidding(refusal) {
			s.tunnel.forbid()
		}
	}
	conn, err := s.dialCommand(ctx)
	if err == nil {
		return conn, command, nil
	}
	var said *sshError
	if errors.As(err, &said) {
		s.explainBoth(said, refusal)
		if strings.Contains(said.words, "permission denied") {
			s.end() // the next login may be that of a user who has joined the group meanwhile
		}
	}
	return nil, undecided, err
}

// isForbidding reports whether a server refuses to forward any socket.
func isForbidding(refusal string) bool {
	return strings.Contains(refusal, "prohibited") || strings.Contains(refusal, "unknown channel type")
}

func (t *tunnel) isForbidden() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.forbidden
}

func (t *tunnel) forbid() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forbidden = true
}

// probeTime is how long an engine may take to answer the first request. One that takes longer
// is slow, and its callers wait for it as long as they like.
const probeTime = 5 * time.Second

// probeSocket connects by the forwarded socket and asks the engine for a sign of life. Refusal
// is what ssh says of a far side that does not connect to the engine.
func (s *session) probeSocket(ctx context.Context) (conn net.Conn, refusal string, err error) {
	if conn, err = s.dialSocket(ctx); err != nil {
		return nil, "", err
	}
	_, err = ping(ctx, conn, probeTime)
	var dialed *dialError
	if errors.As(err, &dialed) {
		err = dialed.cause
	}
	var refused *refusedError
	switch {
	case err == nil:
		return conn, "", nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		_ = conn.Close()
		conn, err = s.dialSocket(ctx)
		return conn, "", err
	case errors.As(err, &refused):
		refusal = refused.said
	}
	_ = conn.Close()
	return nil, refusal, err
}

// ping asks an engine for a sign of life. Noise is what comes before the answer.
func ping(ctx context.Context, conn net.Conn, within time.Duration) (noise string, err error) {
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if deadline, has := ctx.Deadline(); has { // so that there is time to say why
		within = min(within, time.Until(deadline)*4/5)
	}
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, "GET /_ping HTTP/1.1\r\nHost: "+client.DummyHost+"\r\n\r\n"); err != nil {
		return "", err
	}
	answer := bufio.NewReader(conn)
	if noise, err = skipNoise(answer); err != nil {
		return noise, err
	}
	response, err := http.ReadResponse(answer, nil)
	if err != nil {
		return noise, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return noise, err
	}
	if answer.Buffered() > 0 {
		return noise, errors.New("more than one answer of an engine")
	}
	if ctx.Err() != nil {
		return noise, context.Cause(ctx)
	}
	return noise, conn.SetDeadline(time.Time{})
}

// mostNoise is how many bytes may come before the answer of an engine.
const mostNoise = 64 << 10

// skipNoise reads up to the answer of an engine, past what a start-up file of a shell prints.
func skipNoise(from *bufio.Reader) (string, error) {
	var noise strings.Builder
	for noise.Len() < mostNoise {
		start, err := from.Peek(len("HTTP/"))
		if string(start) == "HTTP/" {
			return noise.String(), nil
		}
		if err != nil {
			noise.Write(start)
			return noise.String(), err
		}
		line, err := from.ReadSlice('\n')
		noise.Write(line)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return noise.String(), err
		}
	}
	return noise.String(), errors.New("no answer of an engine")
}

// refusedError is what ssh says of a connection that the far side does not make.
type refusedError struct{ said string }

func (e *refusedError) Error() string { return e.said }

// socketConn is a connection by the forwarded socket. Its end is that of the far side only if
// the ssh process is still there.
type socketConn struct {
	*net.UnixConn
	session  *session
	since    int // mark of what ssh had said before
	received atomic.Bool
}

// dialSocket connects by the forwarded socket.
func (s *session) dialSocket(ctx context.Context) (net.Conn, error) {
	since := s.process.said.now()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", s.socket)
	if err == nil {
		return &socketConn{UnixConn: conn.(*net.UnixConn), session: s, since: since}, nil
	}
	if ctx.Err() == nil {
		if lost := s.lost(); lost != nil {
			return nil, lost
		}
	}
	return nil, err
}

// refusalTime is how long ssh may take to say why a connection was not made. It says so before
// it closes the connection.
const refusalTime = time.Second

// Read implements net.Conn.
func (c *socketConn) Read(p []byte) (int, error) {
	n, err := c.UnixConn.Read(p)
	if n > 0 {
		c.received.Store(true)
	}
	if err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	if lost := c.session.lost(); lost != nil {
		return n, &dialError{cause: lost}
	}
	if !c.received.Load() {
		if said := c.session.process.said.line(c.since, "open failed: ", refusalTime); said != "" {
			return n, &dialError{cause: &refusedError{said}}
		}
	}
	return n, err
}

// Write implements net.Conn. A Read tells why the connection has ended.
func (c *socketConn) Write(p []byte) (int, error) {
	n, err := c.UnixConn.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		if lost := c.session.lost(); lost != nil {
			return n, &dialError{cause: lost}
		}
	}
	return n, err
}

// commandConn is a connection through a docker command at the far side. When that has ended, a
// Read fails with what was printed. A Write fails as well, and that error would hide the other.
type commandConn struct {
	net.Conn
	process *sshProcess
}

// dialCommand connects by `docker system dial-stdio` at the far side. It shares the login of the
// session as long as the server takes sessions, and logs in once more beyond that.
func (s *session) dialCommand(ctx context.Context) (net.Conn, error) {
	spent := time.Duration(0)
	for pauses := s.tunnel.owner.pauses(); ; {
		leave, err := s.approach.enter(ctx)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		conn, err := s.startCommand(ctx)
		dropped := isDropped(err)
		leave(isCrowded(err))
		var said *sshError
		if errors.As(err, &said) {
			said.remedy = s.settings.complete(said.remedy, s.tunnel.target.socket())
		}
		wait := pauses.length()
		if spent += time.Since(began) + wait; err == nil || !dropped || spent > openPatience {
			return conn, err
		}
		if !pause(ctx, nil, wait) {
			return nil, context.Cause(ctx)
		}
	}
}

func (s *session) startCommand(ctx context.Context) (net.Conn, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	options := append(s.settings.options(loginTime), "-o", "ControlMaster=no", "-S", strings.ReplaceAll(s.control, "%", "%%"))
	options = append(options, s.approach.options...)
	target := s.tunnel.target
	process, err := startSSH(append(options, target.arguments(target.dialStdio()...)...), theirs)
	_ = theirs.Close()
	if err != nil {
		_ = ours.Close()
		return nil, err
	}
	conn := &commandConn{Conn: ours, process: process}
	if !s.tunnel.owner.begin("watching ssh", func() {
		select {
		case <-process.ended:
		case <-s.tunnel.ctx.Done():
			process.stop()
		}
		// A helper that outlives ssh may hold the other end.
		_ = ours.SetReadDeadline(time.Now().Add(helperTime))
	}) {
		process.stop()
		return nil, errors.Join(errTunnelsClosed, ours.Close())
	}
	noise, err := ping(ctx, conn, loginTime)
	if err == nil {
		return conn, nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else {
		err = explainCommand(process, noise, err)
	}
	return nil, errors.Join(err, conn.Close())
}

// explainCommand is why a docker command at the far side did not answer.
func explainCommand(process *sshProcess, noise string, err error) error {
	if noise = lastLines(noise); len(noise) > mostQuoted {
		noise = noise[:mostQuoted] + "…"
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && !process.over() {
		if noise == "" {
			return errors.New("the docker command at the far side does not answer")
		}
		return &sshError{
			words:  fmt.Sprintf("the far side prints %q and does not answer", noise),
			remedy: "a start-up file of the account's shell must print nothing and ask nothing when it is not a terminal",
		}
	}
	if !process.within(helperTime) {
		process.stop()
	}
	if said := process.said.text(0); strings.TrimSpace(said) == "" && noise != "" {
		return explainSSH(noise, process.result) // such as of a shell that lets nobody in
	}
	return process.failure()
}

// Read implements net.Conn.
func (c *commandConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	ended := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, os.ErrDeadlineExceeded) && c.process.over()
	if n > 0 || !ended {
		return n, err
	}
	if c.process.within(helperTime) && c.process.result != nil {
		return n, &dialError{cause: c.process.failure()}
	}
	return n, io.EOF
}

// Write implements net.Conn.
func (c *commandConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return len(p), nil
	}
	return n, err
}

// CloseWrite ends what the far side reads, and leaves what it writes.
func (c *commandConn) CloseWrite() error { return c.Conn.(*net.UnixConn).CloseWrite() }

// Close implements net.Conn.
func (c *commandConn) Close() error {
	err := c.Conn.Close()
	c.process.end()
	return err
}

// socketPair returns two ends of a connection: one for this process, one for another.
func socketPair() (ours net.Conn, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(pair[0])
		unix.CloseOnExec(pair[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket for ssh: %w", err)
	}
	file := os.NewFile(uintptr(pair[0]), "ssh")
	defer func() { _ = file.Close() }()
	theirs = os.NewFile(uintptr(pair[1]), "ssh")
	if ours, err = net.FileConn(file); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make a socket for ssh: %w", err), theirs.Close())
	}
	return ours, theirs, nil
}
