package sqlite

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
)

func heartbeats(t *testing.T, log *Log) []deploylog.Heartbeat {
	t.Helper()
	all, err := log.Heartbeats()
	require.NoError(t, err)
	slices.SortFunc(all, func(a, b deploylog.Heartbeat) int { return a.PID - b.PID })
	return all
}

func TestAHeartbeatIsSeenAsLongAsItsLoopLives(t *testing.T) {
	path := newPath(t)
	log, reader := openLog(t, path), openLog(t, path)
	if all := heartbeats(t, reader); len(all) > 0 {
		t.Errorf("before the first there are %v", all)
	}
	one, err := log.Heart()
	require.NoError(t, err)
	two, err := reader.Heart()
	require.NoError(t, err)
	beat := func(h deploylog.Heart, pid int, controls ...string) {
		t.Helper()
		require.NoError(t, h.Beat(deploylog.Heartbeat{Kind: "pipeline", Role: "scheduler", PID: pid, Host: "h", Controls: controls}))
	}
	beat(one, 1, "web")
	beat(two, 2)
	before := time.Now().Add(-time.Hour)
	files, err := filepath.Glob(path + ".heartbeats/*.json")
	require.True(t, err == nil && len(files) == 2, "the files are %v, %v", files, err)
	for _, file := range files {
		require.NoError(t, os.Chtimes(file, before, before))
	}
	beat(one, 1, "web")
	all := heartbeats(t, reader)
	if len(all) != 2 || time.Since(all[0].Last) > time.Minute || time.Since(all[1].Last) < time.Minute || all[0].Controls[0] != "web" || all[0].Serves != nil {
		t.Errorf("there are %+v", all)
	}
	beat(one, 1, "web", "shop")
	one.Stop()
	one.Stop()
	if all := heartbeats(t, reader); len(all) != 1 || all[0].PID != 2 {
		t.Errorf("after its end there are %+v", all)
	}
	for _, file := range files {
		_ = os.Remove(file)
	}
	beat(two, 2)
	assert.Len(t, heartbeats(t, reader), 1, "after somebody removed it there")
	two.Stop()
}

// What stands there may be anybody's, or that of a process that was killed.
func TestWhatIsNoHeartbeatIsLeftOut(t *testing.T) {
	path := newPath(t)
	log := openLog(t, path)
	live, err := log.Heart()
	require.NoError(t, err)
	require.NoError(t, live.Beat(deploylog.Heartbeat{PID: 1}))
	defer live.Stop()
	at := func(name string) string { return filepath.Join(path+".heartbeats", name) }
	for _, name := range []string{"dead.json", "other.txt", ".heartbeat-new"} {
		require.NoError(t, os.WriteFile(at(name), []byte(`{"pid":2}`), 0o600))
	}
	for _, err := range []error{syscall.Mkfifo(at("pipe.json"), 0o600), os.Symlink("/dev/zero", at("link.json")), os.Mkdir(at("dir.json"), 0o700)} {
		require.NoError(t, err)
	}
	for name, text := range map[string]string{"garbage.json": "\x00\x1b[31m", "list.json": "[]", "empty.json": ""} {
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
		f, err := os.Open(at(name))
		require.NoError(t, err)
		t.Cleanup(func() { _ = f.Close() })
		require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	}
	all := heartbeats(t, log)
	assert.True(t, len(all) == 1 && all[0].PID == 1, "there are %+v", all)
	another, err := log.Heart()
	require.NoError(t, err)
	another.Stop()
	assert.Error(t, errOf(os.Stat(at("dead.json"))), "what a dead process left stays")
	assert.NoError(t, errOf(os.Stat(at("garbage.json"))), "what a living process has was removed")
}
