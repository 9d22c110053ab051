package export_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/export"
	"github.com/deployster-go/deployster/internal/must"
)

var update = flag.Bool("update", false, "write what is exported")

// named is a log whose id is always the same.
type named struct{ deploylog.Log }

func (named) ID() string { return "01LOG" }

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// logOf is a log with an event each second, written "DEPLOYMENT TARGET EVENT DATA".
func logOf(t testing.TB, lines ...string) deploylog.Log {
	log := logtest.NewMemory().Open()
	for i, line := range lines {
		parts := append(strings.SplitN(line, " ", 4), "{}")
		e := deploylog.Event{Deployment: parts[0], Target: deploylog.Target(parts[1]), Name: parts[2], Attempt: 1, Data: []byte(parts[3]), CreatedAt: noon.Add(time.Duration(i) * time.Second)}
		if e.Target.Kind() != "resource" {
			e.Revision = "7"
		}
		require.NoError(t, must.Fail(log.Append(t.Context(), e)))
	}
	return named{log}
}

// story is a revision of a pipeline whose first try fails, and what somebody applies beside it.
func story(t testing.TB) deploylog.Log {
	return logOf(t,
		`D pipeline/site pipeline-started {"by":"ada@vm"}`,
		`D stage/site/all stage-started`,
		`D host-group/site/all host-group-started`,
		`D host/site/all/web1 host-started`,
		`R1 run/m.yaml run-started {"details":{"command":"pipeline run","host":"vm","pid":"7","user":"root","deployment":"D","target":"host/site/all/web1"}}`,
		`H run/own.yaml run-started {"details":{"command":"apply","host":"vm","pid":"8","user":"eve"}}`,
		`R1 resource/a resource-started`,
		`R1 resource/a resource-resolved {"status":"STALE"}`,
		`R1 action/a/write action-started`,
		`R1 action/a/write action-failed {"exit_code":3,"error":"the disk is full"}`,
		`R1 resource/a resource-failed {"reason":"action-failed","error":"write failed"}`,
		`R1 run/m.yaml run-failed {"error":"1 failed"}`,
		`D host/site/all/web1 host-failed {"error":"<script>\u2028alert(1)</script>\u001b[2J"}`,
		`D pipeline/site pipeline-paused {"by":"eve } {\"x\":9}\nb"}`,
		`H resource/b resource-started`,
		`D pipeline/site pipeline-cancelled {"by":"ada@vm"}`,
	)
}

func golden(t *testing.T, name string, is []byte) {
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, is, 0o600))
	}
	want, err := os.ReadFile(path)
	assert.True(t, err == nil && bytes.Equal(is, want), "%s: %v, exported is\n%s", name, err, is)
}

func TestTheLogAsSpans(t *testing.T) {
	var out, pretty bytes.Buffer
	require.NoError(t, export.OTLP(t.Context(), story(t), export.Filter{}, "1.2.3", &out))
	require.NoError(t, json.Indent(&pretty, out.Bytes(), "", " "))
	golden(t, "spans.json", pretty.Bytes())
}

func TestTheLogForShiViz(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, export.ShiViz(t.Context(), story(t), export.Filter{}, &out))
	golden(t, "shiviz.log", out.Bytes())
}

// span is what is looked at of one.
type span struct {
	TraceID, SpanID, ParentSpanID, Name, StartTimeUnixNano, EndTimeUnixNano string
	Events                                                                  []json.RawMessage
	DroppedEventsCount                                                      int
	Attributes                                                              []struct{ Key string }
}

// spans are what is exported, all of whose ids and times are as OTLP has them.
func spans(t testing.TB, log deploylog.Log, f export.Filter) []span {
	var out bytes.Buffer
	require.NoError(t, export.OTLP(t.Context(), log, f, "1", &out))
	var all []span
	for line := range bytes.Lines(out.Bytes()) {
		var request struct {
			ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
		}
		require.NoError(t, json.Unmarshal(line, &request))
		all = append(all, request.ResourceSpans[0].ScopeSpans[0].Spans...)
	}
	for _, s := range all {
		for id, bytes := range map[string]int{s.TraceID: 16, s.SpanID: 8} {
			raw, err := hex.DecodeString(id)
			assert.True(t, err == nil && len(raw) == bytes, "%+v has the id %q", s, id)
		}
		start, err := strconv.ParseInt(s.StartTimeUnixNano, 10, 64)
		end, wrong := strconv.ParseInt(s.EndTimeUnixNano, 10, 64)
		assert.True(t, err == nil && wrong == nil && end >= start, "%+v ends before it begins: %v, %v", s, err, wrong)
	}
	return all
}

func TestADeploymentIsExportedWithItsRuns(t *testing.T) {
	var names []string
	for _, s := range spans(t, story(t), export.Filter{Deployment: "D"}) {
		names = append(names, s.Name)
	}
	want := []string{"action/a/write", "resource/a", "run/m.yaml", "host/site/all/web1", "pipeline/site", "stage/site/all", "host-group/site/all"}
	assert.True(t, slices.Equal(names, want), "exported are %q, want %q", names, want)
	all := spans(t, story(t), export.Filter{Since: noon.Add(5 * time.Second)})
	assert.True(t, len(all) == 4 && all[1].ParentSpanID == "", "since then there are %+v", all)
}

// A clock that was set back makes no span that ends before it begins, a target may begin
// again without an end, and what happens to it without end is counted.
func TestSpansOfOddLogs(t *testing.T) {
	log := logtest.NewMemory().Open()
	add := func(name string, attempt int, at time.Time) {
		if _, err := log.Append(t.Context(), deploylog.Event{Deployment: "D", Target: "stage/p/s", Name: name, Attempt: attempt, CreatedAt: at, Data: []byte(`{"error":7,"exit_code":"x","status":"kept"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	add("stage-finished-successfully", 1, noon) // of nothing
	add("stage-started", 1, noon)
	add("stage-started", 2, noon.Add(-time.Hour))
	for i := range 130 {
		add("stage-looked-at", i+1, noon)
	}
	add("stage-failed", 2, noon.Add(-2*time.Hour))
	all := spans(t, log, export.Filter{})
	if len(all) != 2 || len(all[1].Events) != 128 || all[1].DroppedEventsCount != 2 || all[0].SpanID == all[1].SpanID || all[0].TraceID != all[1].TraceID {
		t.Errorf("the spans are %+v", all)
	}
}

// entry matches what ShiViz takes for an event unless it is told otherwise.
var entry = regexp.MustCompile(`(\S*) ({.*})\n(.*)`)

// wantClocks checks what ShiViz checks: the events of a writer are counted, and what an event
// follows is there before it, with all that follows.
func wantClocks(t testing.TB, text string, events int) {
	t.Helper()
	found := entry.FindAllStringSubmatch(text, -1)
	require.True(t, len(found) == events && strings.Count(text, "\n") == 2*events, "%d of %d events can be read:\n%s", len(found), events, text)
	known := map[string][]map[string]int{}
	for _, m := range found {
		var now map[string]int
		require.NoError(t, json.Unmarshal([]byte(m[2]), &now))
		if now[m[1]] != len(known[m[1]])+1 {
			t.Fatalf("event %d of %q is said to be %d", len(known[m[1]])+1, m[1], now[m[1]])
		}
		for writer, n := range now {
			if writer == m[1] {
				n--
			}
			if n == 0 && writer == m[1] {
				continue
			}
			if n < 1 || n > len(known[writer]) {
				t.Fatalf("%s follows event %d of %q, of which there are %d", m[0], n, writer, len(known[writer]))
			}
			for other, least := range known[writer][n-1] {
				if now[other] < least {
					t.Fatalf("%s follows event %d of %q, but not what that follows", m[0], n, writer)
				}
			}
		}
		known[m[1]] = append(known[m[1]], now)
	}
}

var texts = []string{"a", "b b", "c{\"x\":1}", "d\u2028e\u0085f", "\x1b[2J", "<script>", "\u202egnp"}

func TestWhateverTheLogHoldsCanBeRead(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		log, n, seen := logtest.NewMemory().Open(), 0, map[string]int{}
		for range rapid.IntRange(1, 40).Draw(r, "events") {
			kind := rapid.SampledFrom([]string{"run", "resource", "action", "stage", "host-group", "host", "pipeline", "x"}).Draw(r, "kind")
			deployment := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(r, "deployment")
			text := rapid.SampledFrom(texts)
			data, err := json.Marshal(map[string]any{
				"by": text.Draw(r, "by"), "error": text.Draw(r, "error"), "noticed_by": deployment,
				"details": map[string]string{"host": text.Draw(r, "host"), "pid": text.Draw(r, "pid"), "deployment": rapid.SampledFrom([]string{"1", "2"}).Draw(r, "of"), "target": "stage/p"},
			})
			require.NoError(r, err)
			e := deploylog.Event{
				Deployment: deployment, Target: deploylog.Target(kind + rapid.SampledFrom([]string{"/p", "/p/q", "/p/q/r"}).Draw(r, "path")),
				Name: kind + rapid.SampledFrom([]string{"-started", "-finished-successfully", "-failed", "-changed"}).Draw(r, "name"), Data: data,
				CreatedAt: noon.Add(time.Duration(rapid.IntRange(-5, 5).Draw(r, "at")) * time.Hour),
			}
			of := fmt.Sprint(e.Deployment, e.Target, e.Name)
			seen[of]++
			e.Attempt = seen[of]
			require.NoError(r, must.Fail(log.Append(context.Background(), e)))
			n++
		}
		known := map[string]bool{}
		for _, s := range spans(t, log, export.Filter{}) {
			require.False(r, known[s.SpanID], "two spans have the id %s", s.SpanID)
			known[s.SpanID] = true
		}
		var out bytes.Buffer
		require.NoError(r, export.ShiViz(context.Background(), log, export.Filter{}, &out))
		wantClocks(t, out.String(), n)
	})
}

func TestMoreWritersThanCanBeDrawnAreRefused(t *testing.T) {
	log := logtest.NewMemory().Open()
	for i := range 101 {
		require.NoError(t, must.Fail(log.Append(t.Context(), deploylog.Event{Deployment: "D", Target: "x/y", Name: "x-done", Attempt: i + 1, Data: fmt.Appendf(nil, `{"by":"w%d"}`, i)})))
	}
	err := export.ShiViz(t.Context(), log, export.Filter{}, &bytes.Buffer{})
	assert.True(t, err != nil && strings.Contains(err.Error(), "event 101 is by the writer w100") && strings.Contains(err.Error(), "--since"), "%v", err)
}

// FuzzExport exports events whose data is anything.
func FuzzExport(f *testing.F) {
	f.Add(`{"by":"a","details":{"host":"h","pid":"1","deployment":"D","target":"stage/p"}}`, "7")
	f.Add(`{"by":7,"details":[],"exit_code":1e99}`, "\u2028")
	f.Fuzz(func(t *testing.T, data, revision string) {
		log := logtest.NewMemory().Open()
		for i, name := range []string{"run-started", "run-looked-at", "run-failed"} {
			if _, err := log.Append(t.Context(), deploylog.Event{Deployment: "D", Target: "run/p", Name: name, Attempt: i + 1, Revision: revision, Data: []byte(data)}); err != nil {
				t.Skip() // no log has that
			}
		}
		assert.Len(t, spans(t, log, export.Filter{}), 1, "the spans")
		var out bytes.Buffer
		require.NoError(t, export.ShiViz(t.Context(), log, export.Filter{}, &out))
		wantClocks(t, out.String(), 3)
	})
}
