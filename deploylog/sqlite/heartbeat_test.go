package sqlite_test

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
)

func openAt(t *testing.T, path string) *sqlite.Log {
	t.Helper()
	log, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return log
}

func heartbeats(t *testing.T, log *sqlite.Log) []deploylog.Heartbeat {
	t.Helper()
	all, err := log.Heartbeats()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b deploylog.Heartbeat) int { return a.PID - b.PID })
	return all
}

func TestAHeartbeatIsSeenAsLongAsItsLoopLives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	log, reader := openAt(t, path), openAt(t, path)
	if all := heartbeats(t, reader); len(all) > 0 {
		t.Errorf("before the first there are %v", all)
	}
	one, err := log.Heart()
	if err != nil {
		t.Fatal(err)
	}
	two, err := reader.Heart()
	if err != nil {
		t.Fatal(err)
	}
	beat := func(h deploylog.Heart, pid int, controls ...string) {
		t.Helper()
		if err := h.Beat(deploylog.Heartbeat{Kind: "pipeline", Role: "scheduler", PID: pid, Host: "h", Controls: controls}); err != nil {
			t.Fatal(err)
		}
	}
	beat(one, 1, "web")
	beat(two, 2)
	before := time.Now().Add(-time.Hour)
	files, err := filepath.Glob(path + ".heartbeats/*.json")
	if err != nil || len(files) != 2 {
		t.Fatalf("the files are %v, %v", files, err)
	}
	for _, file := range files {
		if err := os.Chtimes(file, before, before); err != nil {
			t.Fatal(err)
		}
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
	if all := heartbeats(t, reader); len(all) != 1 {
		t.Errorf("after somebody removed it there are %+v", all)
	}
	two.Stop()
}

// What stands there may be anybody's, or that of a process that was killed.
func TestWhatIsNoHeartbeatIsLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	log := openAt(t, path)
	live, err := log.Heart()
	if err != nil {
		t.Fatal(err)
	}
	if err := live.Beat(deploylog.Heartbeat{PID: 1}); err != nil {
		t.Fatal(err)
	}
	defer live.Stop()
	at := func(name string) string { return filepath.Join(path+".heartbeats", name) }
	for _, name := range []string{"dead.json", "other.txt", ".heartbeat-new"} {
		if err := os.WriteFile(at(name), []byte(`{"pid":2}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{syscall.Mkfifo(at("pipe.json"), 0o600), os.Symlink("/dev/zero", at("link.json")), os.Mkdir(at("dir.json"), 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"garbage.json": "\x00\x1b[31m", "list.json": "[]", "empty.json": ""} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(at(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
	}
	if all := heartbeats(t, log); len(all) != 1 || all[0].PID != 1 {
		t.Errorf("there are %+v", all)
	}
	another, err := log.Heart()
	if err != nil {
		t.Fatal(err)
	}
	another.Stop()
	if _, err := os.Stat(at("dead.json")); err == nil {
		t.Error("what a dead process left stays")
	}
	if _, err := os.Stat(at("garbage.json")); err != nil {
		t.Error("what a living process has was removed")
	}
}
