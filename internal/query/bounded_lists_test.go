package query

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/deploylog"
	environmentreason "github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/effect"
	"github.com/deployster-go/deployster/pipeline/reason"
)

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
	p := crowded(20, 1000, 60)
	before, err := json.Marshal(p.Rows[:3])
	if err != nil {
		t.Fatal(err)
	}
	got := Bound([]PipelineStatus{p}, false)[0]
	text, err := json.Marshal(got)
	if err != nil || len(text) > 1_100_000 {
		t.Errorf("it is %d bytes, %v", len(text), err)
	}
	if want := map[string]LeftOut{"waiting": {Entries: 70}, "targets": {Entries: 20_000 - 500}}; !reflect.DeepEqual(got.LeftOut, want) {
		t.Errorf("it leaves out %+v, want %+v", got.LeftOut, want)
	}
	failed, hosts := false, checkRows(t, got.Rows)
	for _, a := range got.Waiting {
		failed = failed || a.First.Code == reason.HasFailed
		if want := map[string]LeftOut{"hosts": {Entries: 900}, "causes": {Entries: 980}}; len(a.Hosts) != 100 || len(a.Causes) != 20 || !reflect.DeepEqual(a.LeftOut, want) {
			t.Fatalf("a reason names %d hosts with %d causes, and leaves out %+v", len(a.Hosts), len(a.Causes), a.LeftOut)
		}
	}
	if !failed || hosts != 500 {
		t.Errorf("%d hosts are shown, and what failed: %v", hosts, failed)
	}
	if after, err := json.Marshal(p.Rows[:3]); err != nil || string(after) != string(before) || len(p.Waiting[0].Hosts) != 1000 {
		t.Errorf("what was bounded is not what it was: %v", err)
	}
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
			if len(r.Revisions) != 60 || r.LeftOut != nil {
				t.Errorf("the pipeline itself shows %d revisions in progress, and leaves out %+v", len(r.Revisions), r.LeftOut)
			}
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

// A small document is whole, and does not speak of what would be left out.
func TestTheDocumentOfASmallPipelineIsWhole(t *testing.T) {
	p := crowded(3, 20, 6)
	p.Waiting = p.Waiting[:2]
	text, err := json.Marshal(Bound([]PipelineStatus{p}, false))
	want, err2 := json.Marshal([]PipelineStatus{p})
	if err != nil || err2 != nil || string(text) != string(want) || strings.Contains(string(text), "left_out") {
		t.Errorf("of %d bytes %d are left (%v, %v)", len(want), len(text), err, err2)
	}
	if none, err := json.Marshal(Bound([]PipelineStatus{}, false)); err != nil || string(none) != "[]" {
		t.Errorf("no pipelines are %s, %v", none, err)
	}
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
	if len(shown) != 50 || shown[49].First.Code != environmentreason.AwaitsPromotion {
		t.Errorf("%d reasons are shown, without the most urgent", len(shown))
	}
	if len(said) != 100 || said[99].First.Effect != effect.Refused {
		t.Errorf("%d changes are shown, without what is refused", len(said))
	}
	document := b.In(map[string]any{})["left_out"]
	if want := map[string]LeftOut{"reasons": {Entries: 80}, "changes": {Entries: 30}}; !reflect.DeepEqual(document, want) {
		t.Errorf("they leave out %+v", document)
	}
}

// What is kept of a list is in its order, is what it shows if nothing else is, and is counted.
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
		if len(kept)+left != len(all) || len(kept) > most {
			t.Fatalf("of %d %d are kept and %d left out", len(all), len(kept), left)
		}
		shown, least := map[int]bool{}, -1
		for i, e := range kept {
			if i > 0 && kept[i-1].at >= e.at {
				t.Fatalf("%v are not in their order", kept)
			}
			shown[e.at], least = true, max(least, e.rank)
		}
		for _, e := range all {
			if !shown[e.at] && e.rank < least {
				t.Fatalf("%v is left out, and %v are not", e, kept)
			}
		}
	})
}
