package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
)

// cutter answers what a server answers, cut off after so many bytes: so that it is seen, or as
// something between that hides it.
type cutter struct {
	server http.Handler
	older  bool // it marks nothing
	cuts   func(size int) (after int, hides bool)
	asked  atomic.Int64
}

var markOf = regexp.MustCompile(`\{"end":\d+\}\n$`)

func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/events" || r.URL.Query().Get("follow") != "" {
		c.server.ServeHTTP(w, r)
		return
	}
	c.asked.Add(1)
	whole := httptest.NewRecorder()
	c.server.ServeHTTP(whole, r)
	text := whole.Body.Bytes()
	for name, values := range whole.Header() {
		w.Header()[name] = values
	}
	if c.older {
		text = markOf.ReplaceAll(text, nil)
		w.Header().Del("Deployster-Until")
	}
	after, hides := c.cuts(len(text))
	w.WriteHeader(whole.Code)
	_, _ = w.Write(text[:min(after, len(text))])
	if after < len(text) && !hides {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// read is which events are read through a server.
func read(t assert.TestingT, log deploylog.Log, f deploylog.Filter) (seqs []int64, err error) {
	for e, err := range log.Read(context.Background(), f) {
		if err != nil {
			return seqs, err
		}
		seqs = append(seqs, e.Seq)
	}
	return seqs, nil
}

// However answers are cut off, all events are read, in order and once; or it fails.
func TestACutAnswerNeverLooksWhole(t *testing.T) {
	memory := logtest.NewMemory().Open()
	for n := range 60 {
		e := deploylog.Event{Deployment: fmt.Sprint("d", n), Target: deploylog.Target(fmt.Sprint("run/", n%3)), Name: "run-started", Attempt: 1, Data: fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", n*n%400))}
		require.NoError(t, must.Fail(memory.Append(t.Context(), e)))
	}
	c := &cutter{server: handler(memory, objects.Store{}, nil)}
	url := listen(t, c).URL
	c.cuts = func(size int) (int, bool) { return size, false }
	far := open(t, url)
	rapid.Check(t, func(t *rapid.T) {
		f := deploylog.Filter{
			After: rapid.Int64Range(0, 61).Draw(t, "after"), Until: rapid.SampledFrom([]int64{0, 0, 1, 30, 60, 70}).Draw(t, "until"), Last: rapid.SampledFrom([]int{0, 0, 1, 7, 90}).Draw(t, "last"),
			Target: rapid.SampledFrom([]deploylog.Target{"", "", "run/", "run/1", "run/none"}).Draw(t, "target"),
		}
		c.older = rapid.Bool().Draw(t, "an older server")
		type cut struct {
			part float64
			hide bool
		}
		var cuts []cut
		for n := range rapid.IntRange(0, 2).Draw(t, "cuts") {
			// What an older server marks nowhere is believed the second time.
			cuts = append(cuts, cut{rapid.Float64Range(0, 1).Draw(t, "part"), (n == 0 || !c.older) && rapid.Bool().Draw(t, "hide")})
		}
		c.cuts = func(size int) (int, bool) {
			if len(cuts) == 0 {
				return size, false
			}
			next := cuts[0]
			cuts = cuts[1:]
			return int(next.part * float64(size)), next.hide
		}
		want, err := read(t, memory, f)
		require.NoError(t, err)
		got, err := read(t, far, f)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	})
}

// Where no answer is whole any more, reading fails.
func TestAnAnswerThatStaysCutOffIsAnError(t *testing.T) {
	t.Parallel()
	memory := logtest.NewMemory().Open()
	for n := range 5 {
		require.NoError(t, must.Fail(memory.Append(t.Context(), deploylog.Event{Deployment: fmt.Sprint("d", n), Target: "run/m.yaml", Name: "run-started", Attempt: 1})))
	}
	for name, hides := range map[string]bool{"aborted": false, "hidden": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &cutter{server: handler(memory, objects.Store{}, nil), cuts: func(size int) (int, bool) { return min(size, 500), hides }}
			far := open(t, listen(t, c).URL)
			seqs, err := read(t, far, deploylog.Filter{})
			assert.NoError(t, err, "each answer brings something")
			assert.Equal(t, []int64{1, 2, 3, 4, 5}, seqs)
			c.asked.Store(0)
			c.cuts = func(int) (int, bool) { return map[bool]int{true: 500}[c.asked.Load() == 1], hides }
			seqs, err = read(t, far, deploylog.Filter{})
			assert.Equal(t, []int64{1, 2, 3}, seqs)
			assert.ErrorContains(t, err, "the answer was cut off after event 3")
		})
	}
}

// Who may read no more in the middle is told so, and does not take what there is by then for all.
func TestATokenThatIsRevokedWhileALogIsReadIsAnError(t *testing.T) {
	memory := logtest.NewMemory().Open()
	for n := range 5 {
		require.NoError(t, must.Fail(memory.Append(t.Context(), deploylog.Event{Deployment: fmt.Sprint("d", n), Target: "run/m.yaml", Name: "run-started", Attempt: 1})))
	}
	served := handler(memory, objects.Store{}, nil)
	cut := &cutter{server: served, cuts: func(int) (int, bool) { return 500, false }}
	far := open(t, listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cut.asked.Load() > 0 {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"detail":"a valid token is needed"}`))
			return
		}
		cut.ServeHTTP(w, r)
	})).URL)
	seqs, err := read(t, far, deploylog.Filter{})
	assert.Equal(t, []int64{1, 2, 3}, seqs)
	assert.ErrorContains(t, err, "a valid token is needed")
}

// A document and the log of a job are asked for again where they come cut off, however that is hidden.
func TestWhatComesCutOffIsAskedForAgain(t *testing.T) {
	t.Parallel()
	for name, hides := range map[string]bool{"aborted": false, "hidden": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			c := connect(t, func(w http.ResponseWriter, r *http.Request) {
				text := `{"id":"01LOG"}`
				if strings.HasSuffix(r.URL.Path, "/log") && r.URL.Path != "/v1/log" {
					text = "built 12 packages\n"
				}
				w.Header().Set("Deployster-Log-Size", fmt.Sprint(len(text)))
				if offset := r.URL.Query().Get("offset"); offset != "" && offset != "0" {
					return // there is no more
				}
				if asked.Add(1)%2 == 0 {
					_, _ = w.Write([]byte(text))
					return
				}
				_, _ = w.Write([]byte(text[:5]))
				_ = http.NewResponseController(w).Flush()
				if !hides {
					panic(http.ErrAbortHandler)
				}
			})
			log := must.Get(c.Open(t.Context()))(t)
			assert.Equal(t, "01LOG", log.ID())
			job := must.Get(c.JobLog(t.Context(), "base-1", 1, 1))(t)
			text := must.Get(io.ReadAll(io.NewSectionReader(job, 0, 100)))(t)
			assert.Equal(t, "built 12 packages\n", string(text))
		})
	}
}
