package pipeline

import (
	"slices"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/record"
)

// The cases of the seed's section "The edges3() function": revision 2 is under
// way, or comes later, when host-tested is introduced after host-deployed.
func TestEdges3(t *testing.T) {
	artifacts := []string{"x86", "aarch64", "raspbian"}
	introduce := func(w *tale) {
		w.do(Define{Definition: antGateway(copied, deployed, tested), ID: w.id()})
	}
	for _, c := range []struct {
		name   string
		at     deploylog.Target // where revision 2 is when the step comes in
		event  string
		later  bool // revision 2 is registered after the introduction
		onBeta bool // whether it is done there
		onProd bool
	}{
		{
			name: "011: a revision that is registered after the introduction does the step", later: true,
			onBeta: true, onProd: true,
		},
		{
			name: "011: so does one that has not come to the step's predecessor", at: beta, event: record.StageStarted,
			onBeta: true, onProd: true,
		},
		{
			name: "011: so does one that stands right before the step, and never saw what is behind it", at: onBeta, event: deployed,
			onBeta: true, onProd: true,
		},
		{
			name: "010: the step is not done where what is behind it is complete, nor first on a later host", at: onBeta, event: record.HostFinished,
		},
		{
			name: "011: nor deeper in the pipeline, once its stage was passed", at: beta, event: record.StageFinished,
		},
		{
			name: "011: nor right before it in production, when beta went without", at: onProd, event: deployed,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newAntGateway(t, copied, deployed)
			w.release("1", artifacts...)
			w.idle()
			if c.later {
				introduce(w)
			}
			w.release("2", artifacts...)
			if !c.later {
				w.until("2", c.at, c.event)
				introduce(w)
			}
			w.release("3", artifacts...)
			w.idle()
			for _, revision := range []string{"2", "3"} {
				if !w.happened(revision, w.state.target, record.PipelineFinished) {
					t.Errorf("revision %s did not finish", revision)
				}
			}
			if got := w.happened("2", onBeta, tested); got != c.onBeta {
				t.Errorf("host-tested in beta: %t", got)
			}
			if got := w.happened("2", onProd, tested); got != c.onProd {
				t.Errorf("host-tested in prod: %t", got)
			}
			if !w.happened("3", onBeta, tested) || !w.happened("3", onProd, tested) {
				t.Error("the revision after it does not do the step everywhere")
			}
			if w.happened("1", onBeta, tested) {
				t.Error("a revision that had finished did the step")
			}
		})
	}
}

func TestAStepThatWentAndCameBackIsIntroducedAgain(t *testing.T) {
	w := newAntGateway(t, copied, deployed, tested)
	w.do(Define{Definition: antGateway(copied, deployed), ID: w.id()})
	w.release("1", "x86", "aarch64", "raspbian")
	w.until("1", beta, record.StageFinished)
	w.do(Define{Definition: antGateway(copied, deployed, tested), ID: w.id()})
	w.idle()
	if w.happened("1", onProd, tested) {
		t.Error("prod was tested, beta was not")
	}
}

func TestAKindOfArtifactThatComesInLaterIsNotWaitedFor(t *testing.T) {
	w := newAntGateway(t, copied)
	w.release("1", "x86", "aarch64", "raspbian")
	d := antGateway(copied)
	d.Stages[0].Build.Artifacts = append(d.Stages[0].Build.Artifacts, "riscv")
	w.do(Define{Definition: d, ID: w.id()})
	w.idle()
	if !w.happened("1", w.state.target, record.PipelineFinished) {
		t.Errorf("revision 1 waits: %q", texts(w.state.Explain(w.state.target)))
	}
	w.release("2", "x86", "aarch64", "raspbian")
	w.idle()
	if w.happened("2", beta, record.StageStarted) {
		t.Error("revision 2 does not wait for riscv")
	}
}

func TestTheFailureOfAnAttemptThatWasGivenUpCountsForNothing(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.release("1", "x86", "aarch64", "raspbian")
	w.until("1", onBeta, record.HostStarted)
	slow := slices.Collect(w.state.Decide(noon, Can{}))[0]
	w.do(Cancel{Revision: "1"})
	w.do(Retry{Revision: "1"})
	w.append(slow.Failed("killed", ""))
	w.idle()
	if !w.happened("1", w.state.target, record.PipelineFinished) {
		t.Errorf("it did not finish: %q", texts(w.state.Explain(w.state.target)))
	}
}
