package sqlite

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// TestWhatFollowsIsLostWithItsEvents has no room on the disk for what follows.
func TestWhatFollowsIsLostWithItsEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	l, err := open(t.Context(), path, Options{}, settings{busyTimeout: time.Minute, maxPages: 40})
	if err != nil {
		t.Fatal(err)
	}
	large := sample(1)
	large.Data = json.RawMessage(`"` + strings.Repeat("x", 40*pageSize) + `"`)
	asked := false
	written, err := l.AppendThen(t.Context(), []deploylog.Event{sample(0)}, func([]deploylog.Event) []deploylog.Event {
		asked = true
		return []deploylog.Event{large}
	})
	wantError(t, err, nil, "no room", path)
	if !asked || len(written) > 0 {
		t.Errorf("asked for what follows: %v; written: %v", asked, written)
	}
	_, err = l.AppendThen(t.Context(), []deploylog.Event{sample(2)}, func([]deploylog.Event) []deploylog.Event {
		t.Error("a poisoned log asked for what follows")
		return nil
	})
	wantError(t, err, deploylog.ErrPoisoned)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if v, err := openLog(t, path).Verify(t.Context()); err != nil || v.Events != 0 {
		t.Errorf("%+v, %v; want no event", v, err)
	}
}

// TestKilledBeforeWhatFollows leaves nothing of what was not whole.
func TestKilledBeforeWhatFollows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	p := start(t, "die deciding", path, "d")
	acknowledged := p.rest()
	_ = p.cmd.Wait()
	if lines := strings.Count(acknowledged, "\n"); lines != 2 {
		t.Fatalf("it has acknowledged %q", acknowledged)
	}
	wantAnchored(t, path, acknowledged)
	l := openLog(t, path)
	if v, err := l.Verify(t.Context()); err != nil || v.Events != 2 {
		t.Errorf("%+v, %v; want what was acknowledged and nothing else", v, err)
	}
	if appended, err := l.Append(t.Context(), sample(0)); err != nil || appended[0].Seq != 3 {
		t.Errorf("%+v, %v", appended, err)
	}
}
