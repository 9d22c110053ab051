package sqlite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/regularfile"
)

const (
	heartbeatSuffix = ".json"
	maxHeartbeats   = 1000
	maxHeartbeat    = 4 << 20 // bytes
)

// heart is the heartbeat of a loop in a file of its own. Its process has the lock of the
// file as long as it lives; the file's time is that of the last beat.
type heart struct {
	dir  string
	path string   // of the file that is there now
	file *os.File // nil is none
	text []byte
}

// Heart implements deploylog.HeartbeatLog. It removes what dead processes left.
func (l *Log) Heart() (deploylog.Heart, error) {
	//nolint:gosec // beside the log; others who use that may read who is at work
	if err := os.Mkdir(l.heartbeatDir(), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("heartbeats: %w", err)
	}
	err := l.eachHeartbeat(func(f *os.File) {
		if flock(f, syscall.LOCK_EX) == nil {
			_ = os.Remove(f.Name())
		}
	})
	if err != nil {
		return nil, err
	}
	return &heart{dir: l.heartbeatDir()}, nil
}

func (l *Log) heartbeatDir() string { return l.path + ".heartbeats" }

// Beat implements deploylog.Heart.
func (h *heart) Beat(b deploylog.Heartbeat) error {
	text, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if h.file != nil && bytes.Equal(text, h.text) {
		now := time.Now()
		if os.Chtimes(h.path, now, now) == nil {
			return nil // else somebody removed it
		}
	}
	f, err := os.CreateTemp(h.dir, ".heartbeat-*")
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	temporary := f.Name()
	name := filepath.Join(h.dir, strings.TrimPrefix(filepath.Base(temporary), ".")+heartbeatSuffix)
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(0o644), flock(f, syscall.LOCK_EX)); err == nil {
		err = os.Rename(temporary, name)
	}
	if err != nil {
		_ = os.Remove(temporary)
		return fmt.Errorf("heartbeat: %w", errors.Join(err, f.Close()))
	}
	h.Stop()
	h.path, h.file, h.text = name, f, text
	return nil
}

// Stop implements deploylog.Heart.
func (h *heart) Stop() {
	if h.file != nil {
		_ = os.Remove(h.path)
		_ = h.file.Close()
		h.file = nil
	}
}

// Heartbeats implements deploylog.HeartbeatLog. The files may be anybody's: what is no
// heartbeat, or that of a process that is dead, is left out.
func (l *Log) Heartbeats() (all []deploylog.Heartbeat, err error) {
	err = l.eachHeartbeat(func(f *os.File) {
		if err := flock(f, syscall.LOCK_SH); !errors.Is(err, syscall.EWOULDBLOCK) {
			return
		}
		info, err := f.Stat()
		if err != nil {
			return
		}
		text, err := io.ReadAll(io.LimitReader(f, maxHeartbeat))
		h := deploylog.Heartbeat{}
		if err == nil && json.Unmarshal(text, &h) == nil {
			h.Last = info.ModTime()
			all = append(all, h)
		}
	})
	return all, err
}

// eachHeartbeat opens the files of heartbeats; what cannot be opened is left out.
func (l *Log) eachHeartbeat(do func(*os.File)) error {
	dir, err := os.Open(l.heartbeatDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("heartbeats: %w", err)
	}
	defer dir.Close() //nolint:errcheck // opened for reading
	names, err := dir.Readdirnames(maxHeartbeats)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("heartbeats: %w", err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, heartbeatSuffix) {
			continue
		}
		// A link or a pipe of others leads nowhere.
		f, _, err := regularfile.OpenNoLink(filepath.Join(dir.Name(), name))
		if err != nil {
			continue
		}
		do(f)
		_ = f.Close()
	}
	return nil
}
