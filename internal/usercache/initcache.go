package usercache

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deployster-go/deployster/internal/atomicfile"
	"github.com/deployster-go/deployster/protocol"
)

// The bounds of the init cache. They are checked once by each run that adds to
// it: what was not used for so long goes, and where there is still too much, the
// oldest go until a quarter of the room is free.
const (
	initCacheAge   = 30 * 24 * time.Hour
	initCacheFiles = 20_000
	initCacheBytes = 64 << 20

	// initCacheTouch is how old the time of a file may get before a use renews
	// it; a file whose writing takes that long was given up.
	initCacheTouch = 24 * time.Hour
)

// unfinished begins the names of files that are being written (atomicfile), and of no
// other: keys are hexadecimal.
const unfinished = "."

// InitCache is a inits.Cache of one file for each answer. Whatever goes
// wrong with one, the type is asked. An answer decides which plugs a type gets and
// what is run in its name, so those of others are not believed: a cache that they
// could have written to is neither read nor written, and a warning says so.
type InitCache struct {
	dir   string
	now   func() time.Time
	warn  func(text string)
	prune sync.Once
	vet   sync.Once
	ours  bool // nobody else can write to it
}

// NewInitCache returns that of the user. warn receives why it cannot be used.
func NewInitCache(now func() time.Time, warn func(text string)) *InitCache {
	c := &InitCache{now: now, warn: warn}
	if dir, err := location(); err == nil {
		c.dir = filepath.Join(dir, "init")
	}
	return c
}

// trusted reports whether the cache can be used. It is looked at once.
func (c *InitCache) trusted() bool {
	c.vet.Do(func() {
		if c.dir == "" || os.MkdirAll(c.dir, 0o700) != nil {
			return
		}
		if err := private(c.dir); err != nil {
			c.warn(fmt.Sprintf("what types answered is not remembered: %v", err))
			return
		}
		c.ours = true
	})
	return c.ours
}

// Get reads an answer. The time of its file says when it was last used.
func (c *InitCache) Get(key string) ([]byte, bool) {
	path := filepath.Join(c.dir, key)
	if !c.trusted() {
		return nil, false
	}
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > protocol.MaxAnswer || !privateFile(info) {
		return nil, false
	}
	answer, err := os.ReadFile(path)
	if err != nil {
		return nil, false
	}
	if now := c.now(); now.Sub(info.ModTime()) > initCacheTouch {
		_ = os.Chtimes(path, now, now) // at worst it is asked for again some day
	}
	return answer, true
}

// Put writes an answer, so that a reader sees all of it or none.
func (c *InitCache) Put(key string, answer []byte) {
	if !c.trusted() {
		return
	}
	c.prune.Do(c.bound)
	_ = atomicfile.WriteFile(filepath.Join(c.dir, key), answer) // at worst the type is asked again
}

// bound keeps the cache within its bounds.
func (c *InitCache) bound() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	now, bytes := c.now(), int64(0)
	files := make([]os.FileInfo, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		age := now.Sub(info.ModTime())
		if age > initCacheAge || age > initCacheTouch && strings.HasPrefix(e.Name(), unfinished) {
			_ = os.Remove(filepath.Join(c.dir, e.Name()))
			continue
		}
		files, bytes = append(files, info), bytes+info.Size()
	}
	if len(files) <= initCacheFiles && bytes <= initCacheBytes {
		return
	}
	slices.SortFunc(files, func(a, b os.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for len(files) > initCacheFiles/4*3 || bytes > initCacheBytes/4*3 {
		_ = os.Remove(filepath.Join(c.dir, files[0].Name()))
		bytes -= files[0].Size()
		files = files[1:]
	}
}
