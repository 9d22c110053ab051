// Package pgtest starts PostgreSQL servers for tests: those of this machine's packages.
package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// Server is a PostgreSQL server with a directory of its own. It listens on a socket there.
type Server struct {
	dir     string
	bin     string
	as      *syscall.SysProcAttr
	process *exec.Cmd
	said    bytes.Buffer
}

// New makes a server, which is not started yet, in a new directory.
func New() (*Server, error) {
	return create(func(s *Server) *exec.Cmd {
		return s.command("initdb", "-D", s.data(), "-U", "postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--no-locale")
	})
}

// Standby makes another server, which is not started yet, and which follows this one, which is.
func (s *Server) Standby() (*Server, error) {
	return create(func(standby *Server) *exec.Cmd {
		return standby.command("pg_basebackup", "-D", standby.data(), "-h", s.dir, "-U", "postgres", "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	})
}

// create makes a server whose data a program makes.
func create(data func(*Server) *exec.Cmd) (s *Server, err error) {
	s = &Server{}
	if s.bin, err = programs(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "pg-"); err != nil { // short: the path of a socket is
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.dir))
		}
	}()
	if os.Geteuid() == 0 { // as whom it refuses to run
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, err
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		s.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		if err := os.Chown(s.dir, int(uid), int(gid)); err != nil {
			return nil, err
		}
	}
	made := data(s)
	if out, err := made.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", filepath.Base(made.Path), err, out)
	}
	return s, nil
}

// programs is where the newest version of the server's programs is.
func programs() (string, error) {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(dirs) == 0 {
		return "", errors.New("no PostgreSQL server is installed: apt-get install postgresql")
	}
	return slices.Max(dirs), nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(program string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, program), args...)
	c.Dir, c.SysProcAttr = s.dir, s.as
	return c
}

// Cheap returns settings that make tests cheaper and change no result: a server that is killed loses
// nothing that it has written, and the machine does not crash. They are not for benchmarks.
func Cheap() []string {
	return []string{"fsync=off", "full_page_writes=off", "max_connections=300", "autovacuum=off", "shared_buffers=32MB"}
}

// Start starts the server with settings NAME=VALUE, and waits until it answers.
func (s *Server) Start(settings ...string) error {
	args := []string{"-D", s.data(), "-k", s.dir, "-c", "listen_addresses="}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	s.said.Reset()
	s.process = s.command("postgres", args...)
	s.process.Stdout, s.process.Stderr = &s.said, &s.said
	if err := s.process.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if err := s.command("pg_isready", "-q", "-h", s.dir).Run(); err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server does not answer: %w\n%s", s.Kill(), s.said.String())
		}
	}
}

// Kill ends the server as a crash does, and waits until it has ended.
func (s *Server) Kill() error {
	if s.process == nil {
		return nil
	}
	err := s.process.Process.Signal(syscall.SIGQUIT) // also its children, whom SIGKILL would leave
	_ = s.process.Wait()
	s.process = nil
	return err
}

// Remove ends the server and removes all that it had.
func (s *Server) Remove() error { return errors.Join(s.Kill(), os.RemoveAll(s.dir)) }

// URL is that of a schema of the server.
func (s *Server) URL(schema string) string {
	return "postgres://postgres@/postgres?" + url.Values{"host": {s.dir}, "schema": {schema}}.Encode()
}

// URLWith is that of a schema of this server or another, of the one that can be written to.
func (s *Server) URLWith(other *Server, schema string) string {
	return "postgres://postgres@/postgres?" + url.Values{"host": {s.dir + "," + other.dir}, "schema": {schema}, "target_session_attrs": {"read-write"}}.Encode()
}
