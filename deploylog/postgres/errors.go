package postgres

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/deployster-go/deployster/deploylog"
)

// unwritten is a write that failed, which says its cause alone.
type unwritten struct{ error }

func (u unwritten) Unwrap() error        { return u.error }
func (u unwritten) Is(target error) bool { return target == deploylog.ErrUnwritten }

// forbidden is what the server refuses to this user.
type forbidden struct{ error }

func (f forbidden) Unwrap() error        { return f.error }
func (f forbidden) Is(target error) bool { return target == fs.ErrPermission }

// ErrNoLog says that a schema has no log.
var ErrNoLog = errors.New("there is no deployment log")

// errPooled says that a connection is not what it seems to be.
var errPooled = errors.New("a pooler is between this and the server, and lends connections for single transactions, or without their settings: locks of sessions are none there")

// lacking is that the user lacks a right which a statement gives.
type lacking struct{ what, statement string }

func (l lacking) Error() string { return l.what }

// isLoss reports whether the connection was lost, or the server was.
func isLoss(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(e.Code, "57P") // it is shut down, has crashed, or is starting
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// mayNotLock reports whether the user may not take the locks of which appends and sessions consist. Who
// may is for the database to say, and not for the schema.
func mayNotLock(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == mayNot && strings.Contains(e.Message, "pg_advisory_")
}

// explain says in the user's terms what an error means and what to do. It is applied once,
// where the error leaves the package.
func (l *Log) explain(err error) error {
	remedy := ""
	var right lacking
	switch {
	case err == nil:
		return nil
	case errors.As(err, &right):
		remedy = "whoever owns that says: " + right.statement
	case errors.Is(err, errPooled), isCode(err, protocolError):
		remedy = "name the server itself"
	case errors.Is(err, errLost):
		remedy = "run the command again, which goes on from what is recorded"
	case isCode(err, noSuchDatabase):
		remedy = "create the database, as with 'createdb " + l.where.config.Database + "'"
	case isCode(err, wrongPassword), isCode(err, notAuthorized):
		remedy = "give another user or password in the URL, in PGPASSWORD or in ~/.pgpass, or allow it in the server's pg_hba.conf"
	case mayNotLock(err):
		err = forbidden{err}
		remedy = fmt.Sprintf("the user %q lacks a right, which a superuser gives: GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint), pg_advisory_xact_lock(bigint) TO %s", l.where.config.User, l.where.user())
	case isCode(err, mayNot):
		err = forbidden{err}
		remedy = fmt.Sprintf("the user %q lacks a right: whoever owns the schema grants it", l.where.config.User)
	case isCode(err, readOnly), isCode(err, notSupported) && l.standby:
		remedy = "the server is a standby: name the primary, or all servers and target_session_attrs=read-write"
	case isCode(err, tooMany):
		remedy = "the server has no connection left: raise its max_connections; one process of deployster has up to 20"
	case isCode(err, diskFull):
		remedy = "free some space on the server's disk"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		remedy = "is the server running there?"
	case isLoss(err):
		remedy = "the server cannot be reached: try again once it can"
	}
	err = concise(err)
	if remedy != "" {
		err = fmt.Errorf("%w; %s", err, remedy)
	}
	return placed{err, l.where}
}

// placed is an error and where it happened.
type placed struct {
	error
	where address
}

func (p placed) Error() string { return p.where.String() + ": " + p.error.Error() }
func (p placed) Unwrap() error { return p.error }

// unplaced is an error for those who say themselves where it happened.
func unplaced(err error) error {
	if p, is := errors.AsType[placed](err); is {
		return p.error
	}
	return err
}

// unconnected is why no connection could be made, without what is there twice: a server is tried
// with TLS and without, and each of several addresses.
type unconnected struct {
	error
	text string
}

func (u unconnected) Error() string { return u.text }
func (u unconnected) Unwrap() error { return u.error }

// concise says a failed connection in one line.
func concise(err error) error {
	failed, is := errors.AsType[*pgconn.ConnectError](err)
	if !is {
		return err
	}
	var said []string
	for line := range strings.Lines(failed.Error()) {
		line = strings.TrimSuffix(strings.TrimSpace(line), ":")
		if _, rest, lookup := strings.Cut(line, "hostname resolving error: "); lookup {
			line = rest
		}
		if !slices.Contains(said, line) {
			said = append(said, line)
		}
	}
	const refused = "tls error: server refused TLS connection" // after which it was tried without
	if kept := slices.DeleteFunc(slices.Clone(said), func(line string) bool { return strings.HasSuffix(line, refused) }); len(kept) > 1 {
		said = kept
	}
	return unconnected{err, said[0] + ": " + strings.Join(said[1:], "; ")}
}
