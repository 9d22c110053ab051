package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
)

// Options say where a server listens.
type Options struct {
	Addresses []string // HOST:PORT; port 0 is any that is free
	Sockets   []string // paths of Unix sockets, which every user of the machine may connect to
	TLS       *TLS     // nil: addresses are not encrypted
	Insecure  bool     // so that others than this machine may reach addresses all the same
	Logger    *slog.Logger
}

// ErrInsecure is wrapped where an address is refused that others can reach in plain text.
var ErrInsecure = errors.New("others than this machine can reach it, and what they send would not be encrypted")

// socketMode lets every user of the machine connect: whoever it is, the kernel says so.
const socketMode = 0o666

// Open opens all that the options say, and what systemd has passed to the process; on an
// error nothing stays open. Who closes a listener removes its socket.
func Open(ctx context.Context, o Options) (all []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				_ = l.Close()
			}
			all = nil
		}
	}()
	passed, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("taking the sockets that systemd passes: %w", err)
	}
	for _, l := range passed {
		if l == nil {
			continue // it was no socket of a stream
		}
		all = append(all, l)
		if err := o.admit(l.Addr()); err != nil {
			return all, err
		}
	}
	for _, address := range o.Addresses {
		l, err := o.listen(ctx, address)
		if err != nil {
			return all, err
		}
		all = append(all, l)
	}
	for i, l := range all {
		if _, tcp := l.Addr().(*net.TCPAddr); tcp && o.TLS != nil {
			all[i] = tls.NewListener(l, o.TLS.config())
		}
	}
	for _, path := range o.Sockets {
		l, err := socket(ctx, path)
		if err != nil {
			return all, err
		}
		all = append(all, l)
	}
	return all, nil
}

// listen listens on one address, when that is admitted.
func (o Options) listen(ctx context.Context, address string) (net.Listener, error) {
	to, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w: it must be HOST:PORT, such as 127.0.0.1:7450", address, err)
	}
	if err := o.admit(to); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", to.String())
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listening on %s: another process does so already: use another port, or end that process", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	return l, nil
}

// admit refuses an address that others can reach, unless it is to be encrypted or that is
// said to be right.
func (o Options) admit(a net.Addr) error {
	to, tcp := a.(*net.TCPAddr)
	if !tcp || to.IP.IsLoopback() || o.TLS != nil || o.Insecure {
		return nil
	}
	return fmt.Errorf("listening on %s: %w", a, ErrInsecure)
}

// socket listens on a Unix socket. One that a process left behind which was killed is
// replaced; one on which another process listens is not.
func socket(ctx context.Context, path string) (net.Listener, error) {
	unlock, err := lockBeside(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("listening on the socket %s: %w", path, err)
	}
	defer unlock() // until it is listened on, for who comes meanwhile would remove it
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("listening on the socket %s: %w", path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("listening on the socket %s: there is something else, which is not replaced", path)
	default:
		if err := removeLeft(ctx, path); err != nil {
			return nil, err
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening on the socket %s: %w", path, err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("letting others connect to the socket %s: %w", path, err)
	}
	made, err := os.Lstat(path)
	opened, is := l.(*net.UnixListener)
	if err != nil || !is {
		return nil, errors.Join(fmt.Errorf("looking at the socket %s: %w", path, err), l.Close())
	}
	opened.SetUnlinkOnClose(false)
	return &ownSocket{UnixListener: opened, path: path, made: made}, nil
}

// ownSocket is a listener that removes its socket, and not what is in its place by then: somebody may
// have removed it, and started another server there.
type ownSocket struct {
	*net.UnixListener
	path string
	made fs.FileInfo
	once sync.Once
}

// Close implements net.Listener.
func (s *ownSocket) Close() error {
	s.once.Do(func() {
		if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.made) {
			_ = os.Remove(s.path) // the next one removes it where this fails
		}
	})
	return s.UnixListener.Close()
}

// The wait for others that open sockets in the same directory. None takes long.
const (
	lockTime  = 10 * time.Second
	lockPause = 5 * time.Millisecond
)

// lockBeside locks the directory of a socket, for whoever opens sockets in it, until unlock: of
// two servers that find a socket which a former one left, the second would remove that of the
// first. The kernel unlocks it when the process ends.
func lockBeside(ctx context.Context, path string) (unlock func(), err error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(lockTime); ; {
		switch err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return func() {
				_ = syscall.Flock(int(dir.Fd()), syscall.LOCK_UN) // closing alone would leave it to a child that is being started just now
				_ = dir.Close()
			}, nil
		case ctx.Err() != nil:
			err = ctx.Err()
		case errors.Is(err, syscall.EWOULDBLOCK) && time.Now().Before(until), errors.Is(err, syscall.EINTR):
			select {
			case <-ctx.Done():
			case <-time.After(lockPause):
			}
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			err = fmt.Errorf("another process has locked its directory for %s: end that, or use another directory", lockTime)
		}
		return nil, errors.Join(err, dir.Close())
	}
}

// removeLeft removes a socket on which nobody listens.
func removeLeft(ctx context.Context, path string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("listening on the socket %s: another process does so already: use another path, or end that process", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("finding out whether somebody listens on the socket %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing the socket that a former server left behind: %w", err)
	}
	return nil
}
