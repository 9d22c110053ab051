// Command journaltype is a resource type that keeps a journal of what it does: a file below
// the plug "dir", which is a host, and lines in the file journal of the plug "all", which all
// hosts share. It notices when it is at work on a file twice at once, and when it is at work
// for two revisions at once in what only one may be in.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/protocol"
)

type config struct {
	File  string `json:"file"`
	Value string `json:"value"`
	Host  string `json:"host"`
	For   string `json:"for"`   // the revision
	Alone string `json:"alone"` // in this, such as a stage, one revision is at work at once
	Wait  int    `json:"wait"`  // milliseconds that an action takes
}

func main() {
	t := protocol.Type[config]{
		Plugs: map[string]protocol.PlugRequest{
			"dir": {ContainerPath: "/dir", Writable: true}, "all": {ContainerPath: "/all", Writable: true},
		},
		Removable: true, State: state,
		Actions: map[string]func(context.Context, protocol.Request[config]) error{"set": set, "remove": remove},
	}
	os.Exit(t.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// content is what the file is to hold: which image wrote it is told, too.
func content(c config) string { return c.Value + " image=" + os.Getenv("IMAGE") }

func state(_ context.Context, r protocol.Request[config]) (protocol.StateOutput, error) {
	text, err := os.ReadFile(filepath.Join("/dir", r.Config.File))
	found := map[string]any{"value": string(text)}
	switch {
	case r.Ensure == protocol.Absent && errors.Is(err, os.ErrNotExist):
		return protocol.AnswerValid(nil)
	case r.Ensure == protocol.Absent:
		return protocol.AnswerStale(found, protocol.Do("remove", "remove the file"))
	case errors.Is(err, os.ErrNotExist):
		return protocol.AnswerStale(nil, protocol.Do("set", "write the file"))
	case err != nil:
		return protocol.StateOutput{}, err
	case string(text) == content(r.Config):
		return protocol.AnswerValid(found)
	}
	return protocol.AnswerStale(found, protocol.Do("set", "write the file"))
}

func set(_ context.Context, r protocol.Request[config]) error {
	return journaled("set", r.Config, func(path string) error {
		if _, err := os.Stat("/dir/broken"); err == nil {
			return errors.New("this host is broken")
		}
		next := path + ".next"
		return errors.Join(os.WriteFile(next, []byte(content(r.Config)), 0o600), os.Rename(next, path))
	})
}

func remove(_ context.Context, r protocol.Request[config]) error {
	return journaled("remove", r.Config, func(path string) error {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	})
}

// line is one of the journal.
type line struct {
	Event, Action, Host, File, For, Content string
}

// note appends a line, which is whole whoever else writes.
func note(l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	f, err := os.OpenFile("/all/journal", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Close())
}

func journaled(action string, c config, do func(path string) error) error {
	l := line{Action: action, Host: c.Host, File: c.File, For: c.For, Content: content(c)}
	say := func(event string) error { l.Event = event; return note(l) }
	file, err := hold(filepath.Join("/all/locks", c.Host+"."+c.File))
	if errors.Is(err, errHeld) {
		return errors.Join(err, say("twice"))
	} else if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if c.Alone != "" {
		mine := filepath.Join("/all/locks", c.Alone, c.For)
		own, err := share(mine)
		if err != nil {
			return err
		}
		defer func() { _ = own.Close() }()
		if other := beside(mine); other != "" {
			return errors.Join(fmt.Errorf("%s is at work, too", other), say("beside "+filepath.Base(other)))
		}
	}
	if err := say("begun"); err != nil {
		return err
	}
	time.Sleep(time.Duration(c.Wait) * time.Millisecond)
	if err := do(filepath.Join("/dir", c.File)); err != nil {
		return errors.Join(err, say("failed"))
	}
	return say("done")
}

var errHeld = errors.New("it is being done already")

// The locks are those of open files, which the kernel releases when a container ends. They
// also exclude each other in one process.
const (
	getLock = 36 // F_OFD_GETLK
	setLock = 37 // F_OFD_SETLK
)

func opened(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

func hold(path string) (*os.File, error) {
	f, err := opened(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.FcntlFlock(f.Fd(), setLock, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		return nil, errors.Join(errHeld, err, f.Close())
	}
	return f, nil
}

func share(path string) (*os.File, error) {
	f, err := opened(path)
	if err != nil {
		return nil, err
	}
	return f, syscall.FcntlFlock(f.Fd(), setLock, &syscall.Flock_t{Type: syscall.F_RDLCK})
}

// beside is the lock of another that is held beside this one; "" is none.
func beside(mine string) string {
	others, _ := filepath.Glob(filepath.Join(filepath.Dir(mine), "*"))
	for _, other := range others {
		if other == mine {
			continue
		}
		f, err := os.OpenFile(other, os.O_RDWR, 0)
		if err != nil {
			return other
		}
		lock := syscall.Flock_t{Type: syscall.F_WRLCK}
		err = syscall.FcntlFlock(f.Fd(), getLock, &lock)
		_ = f.Close()
		if err != nil || lock.Type != syscall.F_UNLCK {
			return other
		}
	}
	return ""
}
