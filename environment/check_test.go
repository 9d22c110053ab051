package environment

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

// checking yields what may be done by who has checked only some hosts.
func (w *world) checking(hosts ...string) (all []tasks.Step) {
	can := Can{Disrupt: true, Checked: func(host string) bool { return slices.Contains(hosts, host) }}
	for range 10 {
		all = slices.Collect(w.state.Decide(w.now, can))
		if len(all) == 0 || all[0].Kind != tasks.Record {
			break
		}
		w.append(all[0].Events...)
	}
	return all
}

func TestATaskIsCheckedBeforeAnotherIsStopped(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(func(d *definition.Definition) { image("log-daemon:2")(d); d.Deployment.MaxFailed = most(0) }, hostNames(5))
	steps := w.checking()
	if len(steps) != 1 || steps[0].Kind != tasks.Check || steps[0].Revision != 2 || steps[0].Host != "h1" || len(steps[0].Events) > 0 {
		t.Fatalf("it would do %+v", steps)
	}
	if events := w.state.Completed(steps[0], tasks.ProbeResult{}, nil); len(events) > 0 {
		t.Errorf("recorded is %v", events)
	}
	if again := w.checking("h1"); len(again) != 1 || again[0].Kind != tasks.Terminate {
		t.Errorf("it would do %+v", again)
	}
	w.append(w.state.Completed(steps[0], tasks.ProbeResult{}, errors.New("there is no attribute rack"))...)
	if all := w.checking("h1", "h2"); len(all) > 0 {
		t.Errorf("too many have failed, and it would do %+v", all)
	}
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 5
	         SomeEnvironment/Prod:2 Stuck 5 0`)
	reasons := w.state.Explain(record.TaskTarget("SomeEnvironment/Prod", 2, "h1"), w.now)
	if len(reasons) != 1 || reasons[0].Code != reason.AwaitsRetry || reasons[0].Message != "failed once, next try at 11:47:24 UTC: there is no attribute rack" {
		t.Errorf("it is explained as %+v", reasons)
	}
	w.after(time.Second)
	steps = w.checking()
	if len(steps) != 1 || steps[0].Kind != tasks.Check || steps[0].Attempt != 2 {
		t.Fatalf("it would do %+v", steps)
	}
	w.append(w.state.Completed(steps[0], tasks.ProbeResult{}, nil)...)
	if n := len(w.named(record.TaskChecked)); n != 1 {
		t.Errorf("it is recorded %d times that the task can be started", n)
	}
	if all := w.checking("h1"); len(all) != 1 || all[0].Kind != tasks.Terminate || all[0].Host != "h1" {
		t.Errorf("it would do %+v", all)
	}
}

// A result that comes when another deployment is active says nothing of that.
func TestACheckOfAnotherDeploymentIsNotRecorded(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(image("log-daemon:2"), hostNames(5))
	steps := w.checking()
	w.update(image("log-daemon:3"), hostNames(5))
	if events := w.state.Completed(steps[0], tasks.ProbeResult{}, errors.New("no")); len(events) > 0 {
		t.Errorf("recorded is %v", events)
	}
}

// Nothing is checked where no healthy task is stopped before the new one is healthy.
func TestOnlyReplaceChecks(t *testing.T) {
	for name, change := range map[string]func(*definition.Definition){
		"Surge": func(d *definition.Definition) { d.Deployment.Method = definition.Surge },
		"other": func(d *definition.Definition) { d.InstanceGroup.Query = "others" },
	} {
		w := deployed(t, 5, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 20 })
		w.update(func(d *definition.Definition) { image("log-daemon:2")(d); change(d) }, []string{"h4", "h5", "h6"})
		for _, step := range w.checking() {
			if step.Kind == tasks.Check && (name == "Surge" || step.Host < "h4") {
				t.Errorf("%s: it would %s on %s", name, step.Kind, step.Host)
			}
		}
	}
}
