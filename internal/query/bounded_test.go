package query

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	build "github.com/deployster-go/deployster/build/reason"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	environmentreason "github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/effect"
	"github.com/deployster-go/deployster/pipeline/reason"
)

// diffOf is a unified diff of some texts, each with as many changed lines.
func diffOf(texts, lines int) string {
	var all strings.Builder
	for i := range texts {
		fmt.Fprintf(&all, "--- f%d (1)\n+++ f%d (2)\n", i, i)
		for range lines {
			all.WriteString("+x\n")
		}
	}
	return all.String()
}

func TestADocumentOfDifferencesIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		all     bool
		changed string
		shown   int // lines
		left    map[string]LeftOut
	}{
		"of a few lines":           {changed: diffOf(2, 3), shown: 10},
		"just as much as it shows": {changed: diffOf(1, 998), shown: 1000},
		"one line more":            {changed: diffOf(1, 999), shown: 1000, left: map[string]LeftOut{"carried": {Lines: 1}}},
		"of many texts":            {changed: diffOf(300, 8), shown: 1000, left: map[string]LeftOut{"carried": {Lines: 2000, Texts: 200}}},
		"of one line of a megabyte": {
			changed: "--- a (1)\n+++ a (2)\n+" + strings.Repeat("y", 1<<20) + "\n", shown: 2, left: map[string]LeftOut{"carried": {Lines: 1}},
		},
		"without the last end of line": {changed: diffOf(1, 998) + "+x", shown: 1000, left: map[string]LeftOut{"carried": {Lines: 1}}},
		"with all of it":               {all: true, changed: diffOf(300, 8), shown: 3000},
	} {
		b := &Bounded{All: c.all}
		got := b.Text("carried", c.changed)
		if !strings.HasPrefix(c.changed, got) || strings.Count(got, "\n") != c.shown || !reflect.DeepEqual(b.LeftOut, c.left) {
			t.Errorf("a diff %s shows %d lines, and leaves out %+v", name, strings.Count(got, "\n"), b.LeftOut)
		}
		_, says := b.In(map[string]any{})["left_out"]
		assert.Equal(t, c.left != nil, says, "a diff %s says that something is left out", name)
	}
	b := &Bounded{}
	assert.Len(t, First(b, "differences", make([]int, 501)), 500)
	assert.Equal(t, 1, b.LeftOut["differences"].Differences)
}

func TestNoLineOfADiffIsUncounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.IntRange(0, 70_000), 0, 30).Draw(t, "lengths")
		var all strings.Builder
		for _, n := range lines {
			all.WriteString(strings.Repeat("z", n) + "\n")
		}
		b := &Bounded{}
		got := b.Text("x", all.String())
		if shown := strings.Count(got, "\n"); shown+b.LeftOut["x"].Lines != len(lines) || len(got) > mostBytes || !strings.HasPrefix(all.String(), got) {
			t.Fatalf("of %d lines %d are shown, in %d bytes, and %+v left out", len(lines), shown, len(got), b.LeftOut)
		}
	})
}

// crowded is a pipeline of so many stages with a group of as many hosts each, in which so many
// revisions are under way: the newest has failed at every third host, and the one before waits
// at each stage.
func crowded(stages, hosts, revisions int) PipelineStatus {
	p := PipelineStatus{Name: "p"}
	add := func(place pipeline.Place) {
		row := TargetRow{Place: place}
		for n := 1; n <= revisions; n++ {
			r := pipeline.Row{Target: place.Target, Stage: place.Stage, Group: place.Group, Host: place.Host, Revision: fmt.Sprint(n), Deployment: strings.Repeat("0", 26), Attempt: 1}
			switch {
			case place.Stage == "":
				r.Progress = pipeline.IsRunning
			case place.Host == "" && n == revisions-1:
				r.Progress = pipeline.IsWaiting
			case strings.HasSuffix(place.Host, "3") && n == revisions:
				r.Progress = pipeline.HasFailure
			}
			row.Revisions = append(row.Revisions, r)
		}
		p.Rows = append(p.Rows, row)
	}
	add(pipeline.Place{Target: "pipeline/p"})
	for s := range stages {
		stage := fmt.Sprint("s", s)
		add(pipeline.Place{Target: deploylog.Target("stage/p/" + stage), Stage: stage})
		for h := range hosts {
			host := fmt.Sprint("h", h)
			add(pipeline.Place{Target: deploylog.Target("host/p/" + stage + "/" + host), Stage: stage, Group: stage, Host: host})
		}
	}
	for n := range 2 * revisions {
		r := reason.Reason{Code: reason.AwaitsStage, Revision: fmt.Sprint(n)}
		if n == revisions {
			r.Code = reason.HasFailed
		}
		a := Alike[reason.Reason]{First: r, Causes: map[string]string{}}
		for h := range hosts {
			a.Hosts = append(a.Hosts, fmt.Sprint("h", h))
			a.Causes[fmt.Sprint("h", h)] = strings.Repeat("x", 100)
		}
		p.Waiting = append(p.Waiting, a)
	}
	return p
}

func TestTheDocumentOfALargePipelineIsBounded(t *testing.T) {
	p := crowded(20, 300, 60)
	before := must.Get(json.Marshal(p.Rows[:3]))(t)
	got := Bound([]PipelineStatus{p}, false)[0]
	text := must.Get(json.Marshal(got))(t)
	assert.LessOrEqual(t, len(text), 1_100_000, "bytes")
	assert.Equal(t, map[string]LeftOut{"waiting": {Entries: 70}, "targets": {Entries: 6000 - 500}}, got.LeftOut, "it leaves out")
	failed, hosts := false, checkRows(t, got.Rows)
	for _, a := range got.Waiting {
		failed = failed || a.First.Code == reason.HasFailed
		if want := map[string]LeftOut{"hosts": {Entries: 200}, "causes": {Entries: 280}}; len(a.Hosts) != 100 || len(a.Causes) != 20 || !reflect.DeepEqual(a.LeftOut, want) {
			t.Fatalf("a reason names %d hosts with %d causes, and leaves out %+v", len(a.Hosts), len(a.Causes), a.LeftOut)
		}
	}
	assert.True(t, failed, "what failed is shown")
	assert.Equal(t, 500, hosts, "hosts that are shown")
	after, err := json.Marshal(p.Rows[:3])
	assert.True(t, err == nil && string(after) == string(before) && len(p.Waiting[0].Hosts) == 300, "what was bounded is not what it was: %v", err)
	if all := Bound([]PipelineStatus{p}, true)[0]; len(all.Rows) != len(p.Rows) || len(all.Waiting) != 120 || all.LeftOut != nil || len(all.Rows[5].Revisions) != 60 {
		t.Error("with all of it something is left out")
	}
}

// checkRows checks what is shown of a pipeline that is crowded, and counts its hosts.
func checkRows(t *testing.T, rows []TargetRow) (hosts int) {
	t.Helper()
	for _, r := range rows {
		switch {
		case r.Stage == "":
			require.Len(t, r.Revisions, 60)
			assert.Nil(t, r.LeftOut, "the pipeline itself shows")
			continue
		case r.Host != "":
			hosts++
			if r.Revisions[len(r.Revisions)-1].Progress != pipeline.HasFailure {
				t.Errorf("host %s is shown, and others on which something failed are not", r.Host)
			}
		case r.Revisions[len(r.Revisions)-1].Progress != pipeline.IsWaiting:
			t.Errorf("at stage %s what waits is left out", r.Stage)
		}
		if want := map[string]LeftOut{"in_progress": {Entries: 54}}; len(r.Revisions) != 6 || !reflect.DeepEqual(r.LeftOut, want) {
			t.Errorf("%s shows %d revisions, and leaves out %+v", r.Target, len(r.Revisions), r.LeftOut)
		}
	}
	return hosts
}

func TestTheDocumentOfASmallPipelineIsWhole(t *testing.T) {
	p := crowded(3, 20, 6)
	p.Waiting = p.Waiting[:2]
	text := must.Get(json.Marshal(Bound([]PipelineStatus{p}, false)))(t)
	want := must.Get(json.Marshal([]PipelineStatus{p}))(t)
	assert.Equal(t, string(want), string(text))
	assert.NotContains(t, string(text), "left_out")
	none := must.Get(json.Marshal(Bound([]PipelineStatus{}, false)))(t)
	assert.Equal(t, "[]", string(none))
}

func TestAnExplanationAndAPreviewAreBounded(t *testing.T) {
	b := &Bounded{}
	var tasks []Alike[environmentreason.Reason]
	var changes []Alike[effect.Change]
	for n := range 130 {
		code, what := environmentreason.Ready, effect.Keeps
		if n == 129 {
			code, what = environmentreason.AwaitsPromotion, effect.Refused
		}
		tasks = append(tasks, Alike[environmentreason.Reason]{First: environmentreason.Reason{Code: code}})
		changes = append(changes, Alike[effect.Change]{First: effect.Change{Effect: what}})
	}
	shown, said := BoundTasks(b, "reasons", tasks), BoundChanges(b, "changes", changes)
	require.Len(t, shown, 50)
	assert.Equal(t, environmentreason.AwaitsPromotion, shown[49].First.Code, "the most urgent reason")
	require.Len(t, said, 100)
	assert.Equal(t, effect.Refused, said[99].First.Effect)
	assert.Equal(t, map[string]LeftOut{"reasons": {Entries: 80}, "changes": {Entries: 30}}, b.In(map[string]any{})["left_out"], "they leave out")
}

func TestTheMostUrgentOfAListAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.IntRange(0, 3), 0, 30).Draw(t, "list")
		most := rapid.IntRange(1, 10).Draw(t, "most")
		type entry struct{ at, rank int }
		var all []entry
		for i, rank := range list {
			all = append(all, entry{i, rank})
		}
		kept, left := mostUrgent(all, most, func(e entry) int { return e.rank })
		require.True(t, len(kept)+left == len(all) && len(kept) <= most, "of %d %d are kept and %d left out", len(all), len(kept), left)
		shown, least := map[int]bool{}, -1
		for i, e := range kept {
			require.True(t, i <= 0 || kept[i-1].at < e.at, "%v are not in their order", kept)
			shown[e.at], least = true, max(least, e.rank)
		}
		for _, e := range all {
			require.True(t, shown[e.at] || e.rank >= least, "%v is left out, and %v are not", e, kept)
		}
	})
}

func TestWhatIsAlikeIsSaidOnce(t *testing.T) {
	failed := func(cause func(int) string, hosts int) (list []reason.Reason) {
		list = append(list, reason.Reason{Target: "stage/p/s", Code: reason.AwaitsApproval})
		for h := range hosts {
			list = append(list, reason.Reason{Target: deploylog.Target(fmt.Sprint("host/p/g/h", h)), Deployment: "A", Code: reason.HasFailed, Cause: cause(h)})
		}
		return append(list, reason.Reason{Target: "host/p/g/h0", Deployment: "B", Code: reason.HasFailed})
	}
	same, own := func(int) string { return "exit code 1" }, func(h int) string { return fmt.Sprint("exit code ", h) }
	for name, c := range map[string]struct {
		list []reason.Reason
		all  bool
		want int
	}{
		"two hosts":                  {failed(same, 2), false, 4},
		"three hosts":                {failed(same, 3), false, 3},
		"three with their own words": {failed(own, 3), false, 5},
		"many with their own words":  {failed(own, 6), false, 3},
		"all":                        {failed(same, 9), true, 11},
	} {
		t.Run(name, func(t *testing.T) {
			got := AlikeReasons(c.list, c.all)
			assert.Len(t, got, c.want, "they")
			var hosts []string
			for _, a := range got {
				hosts = append(hosts, a.Hosts...)
			}
			assert.True(t, c.want != 3 || slices.Equal(hosts[:3], []string{"h0", "h1", "h2"}), "the hosts are %v", hosts)
			text, err := json.Marshal(got)
			var read []struct {
				Target string
				Reason string
				Hosts  []string
			}
			if err != nil || json.Unmarshal(text, &read) != nil || len(read) != c.want || read[1].Target != "host/p/g/h0" || read[1].Reason != "failed" || len(read[1].Hosts) != len(hosts) {
				t.Errorf("as JSON they are %s, %v", text, err)
			}
		})
	}
	text, err := json.Marshal(AlikeReasons(nil, false))
	assert.True(t, string(text) == "[]" && err == nil, "none is %s, %v", text, err)
}

// Hosts that failed for causes that differ in more than the name of the host are not told as
// one, and of those with words of their own none is lost.
func TestCausesThatDifferAreToldApart(t *testing.T) {
	const missing, refused = "hosts/%s: there is no such file or directory", "host-deployed of %s failed: exit code 1"
	fail := func(causes ...string) (list []reason.Reason) {
		for i, cause := range causes {
			host := fmt.Sprint("h", i+1)
			list = append(list, reason.Reason{Target: deploylog.Target("host/p/g/" + host), Code: reason.HasFailed, Cause: strings.ReplaceAll(cause, "%s", host)})
		}
		return list
	}
	for name, c := range map[string]struct {
		list []reason.Reason
		want string // the hosts that are said together
		own  int    // causes that are kept
	}{
		"two causes":              {fail(missing, refused, missing, refused, missing, refused, refused), "[h1 h3 h5] [h2 h4 h6 h7]", 0},
		"a cause and others":      {fail(missing, refused, missing, refused, missing, "disk full", "no route"), "[h1 h3 h5] [] [] [] []", 0},
		"six with other causes":   {fail("a", "b", "a %s", "b", "c", "d", "e"), "[h1 h2 h3 h4 h5 h6 h7]", 7},
		"a name within a name":    {fail("h10 is lost", "h20 is lost", "h30 is lost"), "[] [] []", 0},
		"of all, and so of each":  {fail("h1, h2 failed", "h1, h2 failed", "h1, h2 failed"), "[h1 h2 h3]", 0},
		"names beside each other": {fail("%s/%s.yaml", "%s/%s.yaml", "%s/%s.yaml"), "[h1 h2 h3]", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, a := range AlikeReasons(c.list, false) {
				got = append(got, fmt.Sprint(a.Hosts))
				text, err := json.Marshal(a)
				var read struct{ Causes map[string]string }
				assert.True(t, err == nil && json.Unmarshal(text, &read) == nil && len(read.Causes) == c.own, "as JSON it is %s, %v", text, err)
				for _, r := range c.list {
					_, host, _ := hostOf(r.Target)
					assert.True(t, c.own <= 0 || read.Causes[host] == r.Cause, "the cause of %s is lost in %s", host, text)
				}
			}
			assert.Equal(t, c.want, strings.Join(got, " "))
		})
	}
}

func TestJobsOfOtherPlacesAreNotAlike(t *testing.T) {
	job := func(number int, code build.Code, place string) build.Reason {
		return build.Details{Place: place, Slots: 1}.Explain(code, record.Job("base-1", number))
	}
	for _, code := range []build.Code{build.NoWorker, build.WorkersBusy} {
		got := alikeJobs([]build.Reason{job(1, code, "linux/amd64"), job(2, code, "linux/s390x"), job(3, code, "linux/amd64"), job(4, code, "linux/s390x")}, false)
		if len(got) != 2 || !slices.Equal(got[0].Others, record.Numbers{3}) || !slices.Equal(got[1].Others, record.Numbers{4}) || !strings.Contains(got[1].Message, "linux/s390x") {
			t.Errorf("they are %+v", got)
		}
	}
}

func TestRemovalsAreBounded(t *testing.T) {
	names := make([]string, 101)
	for i := range names {
		names[i] = fmt.Sprint("r", i)
	}
	all := make([]Removal, 50)
	for i := range all {
		all[i] = Removal{Stage: fmt.Sprint(i), Resources: names}
	}
	var b Bounded
	kept := BoundRemovals(&b, "removals", Removals{all, 1})
	assert.Len(t, kept, 50)
	assert.Len(t, kept[49].Resources, 100)
	assert.Equal(t, map[string]LeftOut{"resources": {Entries: 1}}, kept[0].LeftOut)
	assert.Equal(t, map[string]LeftOut{"removals": {Entries: 1}}, b.LeftOut)
	assert.Equal(t, all, BoundRemovals(&Bounded{All: true}, "removals", Removals{All: all}))
}
