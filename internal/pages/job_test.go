package pages_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/query/querytest"
)

// printed is the file of the log of an attempt of a job, whose directory is there.
func (s *site) printed(group string, job, attempt int) string {
	s.Helper()
	path := filepath.Join(s.workspace, jobs.LogName(group, job, attempt))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.Fatal(err)
	}
	return path
}

func (s *site) prints(group string, job, attempt int, text string) {
	s.Helper()
	if err := os.WriteFile(s.printed(group, job, attempt), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

// A job has what it printed on its page, as text; of much of it the end, or the beginning.
func TestAJobIsShownWithItsLog(t *testing.T) {
	s := hostile(t)
	b := s.signedIn(identity.Viewer)
	wants := func(path string, wants ...string) {
		t.Helper()
		code, body := b.open(path)
		for _, want := range wants {
			if code != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s answers %d and lacks %s:\n%s", path, code, want, body)
			}
		}
		if strings.Contains(body, "<script>") || strings.Contains(body, "<b>second") || strings.Contains(body, "\x1b") {
			t.Errorf("%s has what was printed as something else than text:\n%s", path, body)
		}
	}
	wants("/builds/packages-1/1", "Its log is not here any more", "<dt>worker</dt>")
	wants("/builds/packages-1/2", "never ran", `because job 1 failed, <a href="/builds/packages-1/1">`, `<a href="/builds/packages-1/1">`)
	s.prints("packages-1", 1, 1, "")
	wants("/builds/packages-1/1", "It printed nothing.")
	s.prints("packages-1", 1, 1, markup+"\n"+colours+"\xff\xfe")
	wants("/builds/packages-1/1", "&lt;script&gt;alert(1)", "&lt;b&gt;second&lt;/b&gt; line\ufffd")
	s.prints("packages-1", 1, 1, "it begins\n"+strings.Repeat("a long line of it\n", 20_000)+"it ends\n")
	if _, body := b.open("/builds/packages-1/1"); !strings.Contains(body, "it ends") || strings.Contains(body, "it begins") || len(body) > 200<<10 {
		t.Errorf("of a long log %d bytes are shown", len(body))
	}
	wants("/builds/packages-1/1?log=beginning", "it begins", "The beginning of 360018 bytes")
	for path, code := range map[string]int{"/builds/packages-1/3": 404, "/builds/packages-1/nothing": 404, "/builds/packages-9/1": 404, "/builds/..%2f..%2f/1": 404} {
		if got, body := b.open(path); got != code {
			t.Errorf("%s answers %d, want %d\n%s", path, got, code, body)
		}
	}
}

// What is in the place of a log and is none is not shown, nor waited for.
func TestWhatIsNoLogIsNotShown(t *testing.T) {
	s := hostile(t)
	b, log := s.signedIn(identity.Viewer), s.printed("packages-1", 1, 1)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("the key of somebody"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func() error{
		"a link":      func() error { return os.Symlink(secret, log) },
		"a pipe":      func() error { return syscall.Mkfifo(log, 0o600) },
		"a directory": func() error { return os.Mkdir(log, 0o700) },
	} {
		if err := errors.Join(os.RemoveAll(log), put()); err != nil {
			t.Fatal(err)
		}
		if code, body := b.open("/builds/packages-1/1"); code != http.StatusOK || !strings.Contains(body, "Its log cannot be read") || strings.Contains(body, "the key") {
			t.Errorf("%s: it answers %d\n%s", name, code, body)
		}
	}
}

// building submits a group of which a job runs.
func (s *site) building() *querytest.Groups {
	s.Helper()
	g := querytest.NewGroups(s.Context(), s.log, s.now, 1)
	if err := errors.Join(g.Submit(record.Triggered{Name: "base", By: "ada", MaxLost: 1}, querytest.Chain("gcc", "curl")...), dispatched(g)); err != nil {
		s.Fatal(err)
	}
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
		if !strings.Contains(body, want) {
			t.Errorf("%s is not shown:\n%s", want, body)
		}
	}
	if one, three, two := strings.Index(body, `data-key="w1"`), strings.Index(body, `data-key="w3"`), strings.Index(body, `data-key="w2"`); one > three || three > two {
		t.Error("not those are first who build, and then those who do not answer")
	}
	if _, body := b.open("/builds/base-1/1"); !strings.Contains(body, "It has printed nothing here yet") || !strings.Contains(body, "data-again") {
		t.Errorf("a job that runs has\n%s", body)
	}
	if _, body := b.open("/builds/base-1/2"); !strings.Contains(body, "never ran") || !strings.Contains(body, `class="tag"`) || strings.Contains(body, "data-again") {
		t.Errorf("a job that waits says not why:\n%s", body)
	}
	var at int64
	for e, err := range s.log.Read(t.Context(), deploylog.Filter{Target: "job/base-1/1"}) {
		if err != nil {
			t.Fatal(err)
		}
		at = e.Seq
	}
	s.prints("base-1", 1, 1, "printed later\n")
	if err := g.End(1, querytest.Built(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, body := b.open("/builds/base-1/1"); !strings.Contains(body, "printed later") || strings.Contains(body, "data-again") {
		t.Errorf("a job that is built has\n%s", body)
	}
	if _, body := b.open(fmt.Sprintf("/builds/base-1/1?at=%d", at)); strings.Contains(body, "printed later") || !strings.Contains(body, "is not known") {
		t.Errorf("as of event %d it has\n%s", at, body)
	}
	if _, body := b.open("/builds/base-1"); strings.Contains(body, "busy</span>") {
		t.Errorf("nothing runs, and a worker is busy:\n%s", body)
	}
	if _, body := b.open(fmt.Sprintf("/builds/base-1?at=%d", at)); !strings.Contains(body, "busy</span>") || strings.Contains(body, "idle</span>") {
		t.Errorf("as of event %d it has not just who built:\n%s", at, body)
	}
}

// A job that was not built, for its artifact was there, leads to the one that built it.
func TestAJobLeadsToTheOneWhoseArtifactItHas(t *testing.T) {
	s := newSite(t)
	g := s.building()
	if err := g.End(1, build.Result{Finished: &record.Finished{Artifact: "sha256:0a", Reused: "job/base-0/7"}}); err != nil {
		t.Fatal(err)
	}
	if _, body := s.signedIn(identity.Viewer).open("/builds/base-1/1"); !strings.Contains(body, `<a href="/builds/base-0/7">`) {
		t.Errorf("it has\n%s", body)
	}
}

// showsWhatAJobPrints follows what a job prints, which is in no event.
func (c *chromium) showsWhatAJobPrints() {
	g := c.building()
	c.prints("base-1", 1, 1, "checking for gcc\n")
	c.open("/builds/base-1")
	c.usable("/builds/base-1")
	c.picture("building")
	c.open("/builds/base-1/1")
	c.until(`document.querySelector(".printed")?.innerText.includes("checking for gcc")`)
	c.usable("/builds/base-1/1")
	c.picture("job")
	c.prints("base-1", 1, 1, "checking for gcc\n<b>second</b> line\n"+strings.Repeat("x", 3000))
	c.until(`document.querySelector(".printed").innerText.includes("<b>second</b> line")`)
	c.usable("/builds/base-1/1")
	if err := g.End(1, querytest.Built(time.Minute)); err != nil {
		c.Fatal(err)
	}
	c.until(`document.querySelector("main .state").innerText.includes("Built") && !("again" in document.getElementById("main").dataset)`)
	c.picture("job-built")
}
