package usercache

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

func newInitCache(t *testing.T) *InitCache {
	return &InitCache{dir: filepath.Join(t.TempDir(), "deployster", "init"), now: time.Now, warn: func(text string) { t.Errorf("warned: %s", text) }}
}

func (c *InitCache) names(t *testing.T) []string {
	entries := must.Get(os.ReadDir(c.dir))(t)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestAnAnswerIsRememberedForItsOwnerOnly(t *testing.T) {
	c := newInitCache(t)
	_, ok := c.Get("ab")
	assert.False(t, ok, "an empty cache has an answer")
	c.Put("ab", []byte("old"))
	c.Put("ab", []byte("answer"))
	answer, ok := c.Get("ab")
	assert.True(t, ok && string(answer) == "answer", "got %q, %t", answer, ok)
	info, err := os.Stat(filepath.Join(c.dir, "ab"))
	assert.True(t, err == nil && info.Mode().Perm() == 0o600, "%v, %v", info, err)
	assert.Len(t, c.names(t), 1)
}

func TestWhatIsNoFileOfTheCacheIsNoAnswer(t *testing.T) {
	c := newInitCache(t)
	c.Put("file", []byte("answer"))
	for name, create := range map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":      func(path string) error { return os.Symlink("file", path) },
		"huge":      func(path string) error { return os.WriteFile(path, make([]byte, 9<<20), 0o600) },
	} {
		require.NoError(t, create(filepath.Join(c.dir, name)))
		_, ok := c.Get(name)
		assert.False(t, ok, "a %s is an answer", name)
	}
}

func TestACacheThatCanNotBeWrittenRemembersNothing(t *testing.T) {
	c := newInitCache(t)
	require.NoError(t, os.WriteFile(filepath.Dir(c.dir), nil, 0o600))
	c.Put("ab", []byte("answer"))
	_, ok := c.Get("ab")
	assert.False(t, ok, "it remembers")
}

func TestWhatWasNotUsedForLongGoes(t *testing.T) {
	c := newInitCache(t)
	c.Put("new", nil)
	c.prune.Do(func() {})
	for name, age := range map[string]time.Duration{
		"old": 31 * 24 * time.Hour, "used": 29 * 24 * time.Hour, unfinished + "1": 25 * time.Hour, unfinished + "2": time.Hour,
	} {
		c.Put(name, []byte("answer"))
		then := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(filepath.Join(c.dir, name), then, then))
	}
	c.Get("used")
	next := &InitCache{dir: c.dir, warn: c.warn, now: func() time.Time { return time.Now().Add(12 * time.Hour) }}
	next.Put("newer", nil)
	assert.Equal(t, unfinished+"2 new newer used", strings.Join(next.names(t), " "))
}

func TestTheOldestGoWhereThereIsTooMuch(t *testing.T) {
	c := newInitCache(t)
	const size = 4 << 20 // the room is for 16
	for i := range 20 {
		name := strconv.Itoa(10 + i)
		c.Put(name, make([]byte, size))
		then := time.Now().Add(time.Duration(i-30) * time.Minute)
		require.NoError(t, os.Chtimes(filepath.Join(c.dir, name), then, then))
	}
	next := &InitCache{dir: c.dir, now: time.Now, warn: c.warn}
	next.Put("30", nil)
	names := next.names(t)
	assert.True(t, len(names) == 13 && names[0] == "18", "left are %v", names)
}

func TestACacheThatOthersCanWriteToIsNotUsed(t *testing.T) {
	const somebody = 65534
	for name, change := range map[string]func(c *InitCache) error{
		"the directory is writable for all": func(c *InitCache) error { return os.Chmod(c.dir, 0o777) },
		"the directory is another's":        func(c *InitCache) error { return os.Chown(c.dir, somebody, -1) },
		"one above is writable for a group": func(c *InitCache) error { return os.Chmod(filepath.Dir(c.dir), 0o770) },
		"one above is another's":            func(c *InitCache) error { return os.Chown(filepath.Dir(c.dir), somebody, -1) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newInitCache(t)
			c.Put("ab", []byte("forged"))
			require.NoError(t, change(c))
			var warnings []string
			next := &InitCache{dir: c.dir, now: time.Now, warn: func(text string) { warnings = append(warnings, text) }}
			_, ok := next.Get("ab")
			assert.False(t, ok, "it is used")
			if next.Put("cd", []byte("answer")); len(c.names(t)) != 1 {
				t.Errorf("it is written to: %v", c.names(t))
			}
			if len(warnings) != 1 || !strings.Contains(warnings[0], "others can write to "+filepath.Dir(c.dir)) || !strings.Contains(warnings[0], "chmod") {
				t.Errorf("warnings: %q", warnings)
			}
		})
	}
	c := newInitCache(t)
	c.Put("ab", []byte("forged"))
	c.Put("cd", []byte("forged"))
	require.NoError(t, os.Chmod(filepath.Join(c.dir, "ab"), 0o666))
	require.NoError(t, os.Chown(filepath.Join(c.dir, "cd"), somebody, -1))
	for _, key := range []string{"ab", "cd"} {
		_, ok := c.Get(key)
		assert.False(t, ok, "%s is used, though others can write to it", key)
	}
}
