package oci

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

// listing remembers which containers there are records of. Where there are many hosts,
// each step of each asks for them, and mostly nothing has changed.
type listing struct {
	mu      sync.Mutex
	ids     []string
	changed time.Time // the directory, when it was read; zero where that does not tell its content
}

// settled is how old the time of a directory has to be before the same time means the
// same content: some file systems have times in seconds.
const settled = 2 * time.Second

// of lists the containers of which there is a record. The result must not be changed.
func (l *listing) of(d runDir) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Stat(d.records())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.ids, l.changed = nil, time.Time{}
		return nil, nil
	case err != nil:
		return nil, err
	case !l.changed.IsZero() && info.ModTime().Equal(l.changed):
		return l.ids, nil
	}
	now := time.Now()
	ids, err := d.ids()
	if err != nil {
		return nil, err
	}
	l.ids, l.changed = ids, time.Time{}
	if now.Sub(info.ModTime()) > settled {
		l.changed = info.ModTime()
	}
	return ids, nil
}

// ids lists the containers of which there is a record.
func (d runDir) ids() ([]string, error) {
	entries, err := os.ReadDir(d.records())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var ids []string
	for _, entry := range entries {
		if isID(entry.Name()) && entry.Type().IsRegular() {
			ids = append(ids, entry.Name())
		}
	}
	return ids, nil
}
