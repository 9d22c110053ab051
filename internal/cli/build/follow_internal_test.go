package build

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/reason"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/inventory"
)

// However much of a log was shown when its middle is left out, nothing of it is shown twice, and
// what is not shown at all is said once.
func TestAFollowedLogWhoseMiddleIsLeftOut(t *testing.T) {
	const half = jobs.MaxLog / 2
	for _, c := range []struct {
		size, shown int
		missed      int // bytes; 0 is none
	}{
		{jobs.MaxLog + 7, 0, 7},
		{jobs.MaxLog + 7, half - 1, 7},
		{jobs.MaxLog + 7, half, 7},
		{jobs.MaxLog + 7, half + 3, 4},
		{jobs.MaxLog + 7, half + 7, 0},
		{jobs.MaxLog + 7, jobs.MaxLog, 0},
		{3 * jobs.MaxLog, half + 1, 2*jobs.MaxLog - 1},
		{3 * jobs.MaxLog, jobs.MaxLog, 2*jobs.MaxLog - half},
	} {
		t.Run(fmt.Sprintf("%d bytes after %d", c.size, c.shown), func(t *testing.T) {
			all := make([]byte, c.size)
			for i := range all {
				all[i] = "abcdefghijklmnopqrstuvw\n"[i%24]
			}
			left := fmt.Appendf(nil, "\n[%d bytes are left out here]\n", c.size-jobs.MaxLog)
			said, err := os.Create(filepath.Join(t.TempDir(), "said"))
			require.NoError(t, err)
			defer said.Close()
			l := &jobLog{app: &app.App{Printer: &output.Printer{Out: said}}}
			short := bytes.Join([][]byte{all[:half], left, all[c.size-half:]}, nil)
			for _, content := range [][]byte{all[:c.shown], short, short} {
				path := filepath.Join(t.TempDir(), "log")
				require.NoError(t, os.WriteFile(path, content, 0o600))
				f, err := os.Open(path)
				require.NoError(t, err)
				assert.NoError(t, l.shortened(localLog{f}))
				assert.NoError(t, l.copy(localLog{f}))
				_ = f.Close()
			}
			want := all
			if c.missed > 0 {
				want = bytes.Join([][]byte{all[:max(half, c.shown)], fmt.Appendf(nil, "\n[%d bytes are left out here]\n", c.missed), all[c.size-half:]}, nil)
			}
			shown, err := os.ReadFile(said.Name())
			assert.True(t, err == nil && bytes.Equal(shown, want), "%d bytes are shown, want %d: %v", len(shown), len(want), err)
		})
	}
}

// The log of a container that goes on when its process has died is taken again and again: each
// time more of its middle is left out.
func TestAFollowedLogOfWhichMoreIsLeftOut(t *testing.T) {
	const half = jobs.MaxLog / 2
	for name, grown := range map[string]int{"by a little": 100, "by all that was shown": half, "by more than that": half + 7, "by much": 2 * jobs.MaxLog} {
		t.Run(name, func(t *testing.T) {
			const first = jobs.MaxLog + 50
			all := make([]byte, first+grown)
			for i := range all {
				all[i] = "abcdefghijklmnopqrstuvw\n"[i%24]
			}
			omission := func(n int) []byte { return fmt.Appendf(nil, "\n[%d bytes are left out here]\n", n) }
			short := func(size int) []byte {
				return bytes.Join([][]byte{all[:half], omission(size - jobs.MaxLog), all[size-half : size]}, nil)
			}
			said, err := os.Create(filepath.Join(t.TempDir(), "said"))
			require.NoError(t, err)
			defer said.Close()
			l := &jobLog{app: &app.App{Printer: &output.Printer{Out: said}}}
			for _, content := range [][]byte{all[:half+3], short(first), short(first), short(len(all)), short(len(all))} {
				path := filepath.Join(t.TempDir(), "log")
				require.NoError(t, os.WriteFile(path, content, 0o600))
				f, err := os.Open(path)
				require.NoError(t, err)
				assert.NoError(t, errors.Join(l.shortened(localLog{f}), l.copy(localLog{f}), f.Close()))
			}
			want := [][]byte{all[:half+3], omission(47), all[first-half : first]}
			if missed := grown - half; missed > 0 {
				want = append(want, omission(missed))
			}
			want = append(want, all[max(first, len(all)-half):])
			if shown, err := os.ReadFile(said.Name()); err != nil || !bytes.Equal(shown, bytes.Join(want, nil)) {
				t.Errorf("%d bytes are shown, want %d: %v", len(shown), len(bytes.Join(want, nil)), err)
			}
		})
	}
}

// On a terminal, too, what is left out is said on a line of its own, wherever the last line that
// was shown broke off.
func TestWhatIsLeftOutIsALineOfItsOwnOnATerminal(t *testing.T) {
	screen, tty, err := pty.Open()
	require.NoError(t, err)
	defer screen.Close()
	shown := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(screen) // it ends with an error when nobody has the terminal open
		shown <- string(text)
	}()
	const half, unfinished = jobs.MaxLog / 2, "unfinished"
	l := &jobLog{app: &app.App{Printer: &output.Printer{Out: tty, Getenv: func(string) string { return "xterm" }}}, rest: []byte(unfinished), shown: half + 10}
	path := filepath.Join(t.TempDir(), "log")
	end := strings.Repeat("x", half-5) + "\nend\n"
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("a", half)+"\n[100 bytes are left out here]\n"+end), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	assert.NoError(t, l.shortened(localLog{f}))
	assert.NoError(t, tty.Close())
	if got, want := <-shown, unfinished+"\r\n[90 bytes are left out here]\r\n"; got != want {
		t.Errorf("the terminal shows %q, want %q", got, want)
	}
}

func TestTheScreenKnowsTheInventoryOfItsDispatcher(t *testing.T) {
	clock := func() time.Time { return querytest.Noon }
	log, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), sqlite.Options{})
	require.NoError(t, err)
	defer log.Close()
	a := &app.App{Printer: &output.Printer{Out: os.Stdout, Err: os.Stderr, Getenv: func(string) string { return "" }, Now: clock, Format: "text"}}
	groups := querytest.NewGroups(t.Context(), log, clock, 1)
	if _, err := groups.Command(t.Context(), build.Submit{
		Triggered: record.Triggered{Name: "base"}, Places: []record.Place{{Platform: "linux/amd64", Inventory: "prod"}}, Jobs: []record.JobSpec{{Package: "gcc"}},
	}); err != nil {
		t.Fatal(err)
	}
	_, err = groups.Dispatch()
	require.NoError(t, err)
	for inventory, wants := range map[string]bool{"prod": false, "another": true} {
		s := openScreen(t.Context(), a, log, func(record.Place) []build.Worker { return nil }, inventory)
		shown, _ := s.source()
		require.Len(t, shown, 1, "groups are shown")
		says := false
		for _, r := range shown[0].Reasons {
			says = says || r.Code == reason.OtherInventory
		}
		assert.Equal(t, wants, says, "with the inventory %s it says that it is another: %t", inventory, says)
	}
}

func TestWorkersServeWhatTheirEnginesSay(t *testing.T) {
	now, answers, asked := time.Unix(0, 0), map[string]string{"silent": ""}, []string{}
	answers["arm"] = "linux/arm64"
	s := &serving{now: func() time.Time { return now }, ask: func(names []string) (platforms []string) {
		for _, name := range names {
			asked = append(asked, name)
			platforms = append(platforms, answers[name])
		}
		return platforms
	}, hosts: []inventory.Host{
		{Name: "arm", Slots: 1}, {Name: "silent", Slots: 1},
		{Name: "told", Slots: 1, Platforms: []string{"linux/s390x"}},
		{Name: "here", Slots: 1, Engine: inventory.OCI},
	}}
	is := func(platform string, want ...string) {
		names := []string{}
		for _, w := range s.workers(record.Place{Platform: platform}) {
			if !w.Silent {
				names = append(names, w.Name)
			}
		}
		assert.True(t, slices.Equal(want, names), "%s is served by %v, want %v", platform, names, want)
	}
	is("linux/riscv64")
	got := s.workers(record.Place{Platform: "linux/riscv64"})
	assert.True(t, len(got) == 1 && got[0] == (build.Worker{Name: "silent", Silent: true}), "who does not answer is shown as %+v", got)
	is("linux/s390x", "told")
	require.Contains(t, hostsOf(s, "linux/arm64"), "arm")
	assert.Contains(t, hostsOf(s, "linux/"+runtime.GOARCH), "here", "who answers, or is this machine, does not serve its platform")
	assert.Equal(t, "[arm silent]", fmt.Sprint(asked), "were asked")
	now, answers["silent"] = now.Add(2*askAgain), "linux/riscv64"
	is("linux/riscv64", "silent")
	assert.Equal(t, "[arm silent silent]", fmt.Sprint(asked), "were asked")
}

// As long as a server runs, those that answered are asked again, and nobody waits for that.
func TestAWorkerThatGoesAwayIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, hang := map[string]string{"a": "linux/amd64", "told": "linux/amd64"}, make(chan bool, 1)
		s := &serving{follows: true, now: time.Now, ask: func(names []string) (platforms []string) {
			<-hang
			for _, name := range names {
				platforms = append(platforms, answers[name])
			}
			return platforms
		}, hosts: []inventory.Host{{Name: "a", Slots: 1}, {Name: "told", Slots: 2, Platforms: []string{"linux/amd64"}}}}
		is := func(want ...build.Worker) {
			got := s.workers(record.Place{Platform: "linux/amd64"})
			assert.True(t, slices.Equal(got, want), "there are %+v, not %+v", got, want)
		}
		a, told := build.Worker{Name: "a", Slots: 1}, build.Worker{Name: "told", Slots: 2}
		hang <- true
		is(a, told)
		<-time.After(askAgain)
		answers = map[string]string{"a": "linux/amd64"}
		is(a, told) // while they are asked
		hang <- true
		synctest.Wait()
		is(a, build.Worker{Name: "told", Silent: true})
		<-time.After(askAgain)
		answers = map[string]string{"told": "linux/amd64"}
		hang <- true
		is(a, build.Worker{Name: "told", Silent: true})
		synctest.Wait()
		is(build.Worker{Name: "a", Silent: true}, told)
	})
}

func hostsOf(s *serving, platform string) (names []string) {
	for _, w := range s.workers(record.Place{Platform: platform}) {
		if !w.Silent {
			names = append(names, w.Name)
		}
	}
	return names
}
