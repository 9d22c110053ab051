package pages_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/query/querytest"
)

// printed is the file of the log of an attempt of a job, whose directory is there.
func (s *site) printed(group string, job, attempt int) string {
	path := filepath.Join(s.workspace, jobs.LogName(group, job, attempt))
	require.NoError(s, os.MkdirAll(filepath.Dir(path), 0o700))
	return path
}

func (s *site) prints(group string, job, attempt int, text string) {
	require.NoError(s, os.WriteFile(s.printed(group, job, attempt), []byte(text), 0o600))
}

// A job has what it printed on its page, as text; of much of it the end, or the beginning.
func TestAJobIsShownWithItsLog(t *testing.T) {
	s := hostile(t)
	b := s.signedIn(identity.Viewer)
	wants := func(path string, wants ...string) {
		for _, want := range wants {
			body := b.shows(http.StatusOK, want, path)
			for _, printed := range []string{"<script>", "<b>second", "\x1b"} {
				assert.NotContains(t, body, printed, "what was printed is text")
			}
		}
	}
	wants("/builds/packages-1/1", "Its log is not here any more", "<dt>worker</dt>")
	wants("/builds/packages-1/2", "never ran", `because job 1 failed, <a href="/builds/packages-1/1">`, `<a href="/builds/packages-1/1">`)
	s.prints("packages-1", 1, 1, "")
	wants("/builds/packages-1/1", "It printed nothing.")
	s.prints("packages-1", 1, 1, markup+"\n"+colours+"\xff\xfe")
	wants("/builds/packages-1/1", "&lt;script&gt;alert(1)", "&lt;b&gt;second&lt;/b&gt; line\ufffd")
	s.prints("packages-1", 1, 1, "it begins\n"+strings.Repeat("a long line of it\n", 20_000)+"it ends\n")
	body := b.shows(http.StatusOK, "it ends", "/builds/packages-1/1")
	assert.False(t, strings.Contains(body, "it begins") || len(body) > 200<<10, "of a long log %d bytes are shown", len(body))
	wants("/builds/packages-1/1?log=beginning", "it begins", "The beginning of 360018 bytes")
	for _, path := range []string{"/builds/packages-1/3", "/builds/packages-1/nothing", "/builds/packages-9/1", "/builds/..%2f..%2f/1"} {
		b.shows(http.StatusNotFound, "", path)
	}
}

// What is in the place of a log and is none is not shown, nor waited for.
func TestWhatIsNoLogIsNotShown(t *testing.T) {
	s := hostile(t)
	b, log := s.signedIn(identity.Viewer), s.printed("packages-1", 1, 1)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("the key of somebody"), 0o600))
	for name, put := range map[string]func() error{
		"a link":      func() error { return os.Symlink(secret, log) },
		"a pipe":      func() error { return syscall.Mkfifo(log, 0o600) },
		"a directory": func() error { return os.Mkdir(log, 0o700) },
	} {
		require.NoError(t, errors.Join(os.RemoveAll(log), put()))
		assert.NotContains(t, b.shows(http.StatusOK, "Its log cannot be read", "/builds/packages-1/1"), "the key", name)
	}
}

// building submits a group of which a job runs.
func (s *site) building() *querytest.Groups {
	g := querytest.NewGroups(s.Context(), s.log, s.now, 1)
	require.NoError(s, errors.Join(g.Submit(record.Triggered{Name: "base", By: "ada", MaxLost: 1}, querytest.Chain("gcc", "curl")...), dispatched(g)))
	return g
}

// A group has its workers with what they build. Of an earlier moment at which a job ran, what
// it has printed since is not shown as if it had been there.
func TestWorkersAreShownWithWhatTheyBuild(t *testing.T) {
	s := newSite(t)
	g := s.building()
	b := s.signedIn(identity.Viewer)
	s.workers = func() (build.Workers, string, error) {
		return func(record.Place) []build.Worker {
			return []build.Worker{{Name: "w1", Slots: 2}, {Name: "w2", Slots: 1}, {Name: "w3", Silent: true}}
		}, "", nil
	}
	_, body := b.open("/builds/base-1")
	for _, want := range []string{
		`<tr data-key="w1"><th scope="row">w1</th>`, `busy</span> <span class="dim">1 of 2 slots`, `<a href="/builds/base-1/1">gcc</a>`,
		`idle</span>`, "no job can begin before others have ended", `offline</span>`, "deployster host check w3",
	} {
		assert.Contains(t, body, want, "is")
	}
	if one, three, two := strings.Index(body, `data-key="w1"`), strings.Index(body, `data-key="w3"`), strings.Index(body, `data-key="w2"`); one > three || three > two {
		t.Error("not those are first who build, and then those who do not answer")
	}
	assert.Contains(t, b.shows(http.StatusOK, "It has printed nothing here yet", "/builds/base-1/1"), "data-again")
	waits := b.shows(http.StatusOK, "never ran", "/builds/base-1/2")
	assert.Contains(t, waits, `class="tag"`)
	assert.NotContains(t, waits, "data-again")
	at := s.events(deploylog.Filter{Target: "job/base-1/1", Last: 1})[0].Seq
	s.prints("base-1", 1, 1, "printed later\n")
	require.NoError(t, g.End(1, querytest.Built(time.Minute)))
	assert.NotContains(t, b.shows(http.StatusOK, "printed later", "/builds/base-1/1"), "data-again")
	assert.NotContains(t, b.shows(http.StatusOK, "is not known", fmt.Sprintf("/builds/base-1/1?at=%d", at)), "printed later")
	assert.NotContains(t, b.shows(http.StatusOK, "", "/builds/base-1"), "busy</span>", "nothing runs")
	assert.NotContains(t, b.shows(http.StatusOK, "busy</span>", fmt.Sprintf("/builds/base-1?at=%d", at)), "idle</span>")
}

// A job that was not built, for its artifact was there, leads to the one that built it.
func TestAJobLeadsToTheOneWhoseArtifactItHas(t *testing.T) {
	s := newSite(t)
	g := s.building()
	require.NoError(t, g.End(1, build.Result{Finished: &record.Finished{Artifact: "sha256:0a", Reused: "job/base-0/7"}}))
	s.signedIn(identity.Viewer).shows(http.StatusOK, `<a href="/builds/base-0/7">`, "/builds/base-1/1")
}

// showsWhatAJobPrints follows what a job prints, which is in no event.
func (c *chromium) showsWhatAJobPrints() {
	g := c.building()
	c.prints("base-1", 1, 1, "checking for gcc\n")
	c.open("/builds/base-1")
	c.usable("/builds/base-1")
	c.open("/builds/base-1/1")
	c.until(`document.querySelector(".printed")?.innerText.includes("checking for gcc")`)
	c.usable("/builds/base-1/1")
	c.prints("base-1", 1, 1, "checking for gcc\n<b>second</b> line\n"+strings.Repeat("x", 3000))
	c.until(`document.querySelector(".printed").innerText.includes("<b>second</b> line")`)
	c.usable("/builds/base-1/1")
	require.NoError(c, g.End(1, querytest.Built(time.Minute)))
	c.until(`document.querySelector("main .state").innerText.includes("Built") && !("again" in document.getElementById("main").dataset)`)
}

// twoWorkers serve everything.
func twoWorkers() (build.Workers, string, error) {
	return func(record.Place) []build.Worker {
		return []build.Worker{{Name: "w1", Slots: 1}, {Name: "w2", Slots: 1}}
	}, "", nil
}

// head is the newest event.
func (s *site) head() (seq string) {
	return strconv.FormatInt(s.events(deploylog.Filter{Last: 1})[0].Seq, 10)
}

func (s *site) events(f deploylog.Filter) (all []deploylog.Event) {
	for e, err := range s.log.Read(s.Context(), f) {
		require.NoError(s, err)
		all = append(all, e)
	}
	return all
}

// A group that has not ended has on its page when it will have, by what its jobs took before.
func TestAGroupIsShownWithItsForecast(t *testing.T) {
	s := newSite(t)
	workers, none := twoWorkers, errors.New("hosts.yaml:3: a host without a name")
	s.workers = func() (build.Workers, string, error) { return workers() }
	groups := querytest.NewGroups(t.Context(), s.log, s.now, 1)
	b := s.signedIn(identity.Viewer)
	do := func(errs ...error) { require.NoError(t, errors.Join(errs...)) }
	do(groups.Submit(record.Triggered{Name: "packages", MaxLost: 1}, querytest.Chain("a", "b")...), dispatched(groups))
	b.shows(http.StatusOK, "2 jobs left, 2 jobs at once: how long they take is not known yet", "/builds/packages-1")
	do(groups.End(1, querytest.Built(time.Minute)), dispatched(groups), groups.End(2, querytest.Built(time.Minute)))
	assert.NotContains(t, b.shows(http.StatusOK, "", "/builds/packages-1"), "at once")
	do(groups.Submit(record.Triggered{Name: "packages", MaxLost: 1, NoReuse: true}, querytest.Chain("a", "b")...), dispatched(groups))
	body := b.shows(http.StatusOK, "2 jobs left, 2 jobs at once: expected to end at", "/builds/packages-2")
	assert.Contains(t, body, s.now().Add(2*time.Minute).UTC().Format("2006-01-02T15:04"))
	assert.Contains(t, body, `title="in 1m"`)
	assert.NotContains(t, b.shows(http.StatusOK, "", "/builds/packages-2?at="+s.head()), "at once")
	do(groups.End(1, querytest.Built(time.Minute)), dispatched(groups))
	s.later(time.Hour)
	b.shows(http.StatusOK, "expected to have ended by now; what runs takes longer than it did last", "/builds/packages-2")
	workers = func() (build.Workers, string, error) { return nil, "", none }
	assert.NotContains(t, b.shows(http.StatusOK, "it is not known which workers there are: "+none.Error(), "/builds/packages-2"), "at once")
}
