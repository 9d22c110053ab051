package killloop

import (
	"strings"

	"github.com/deployster-go/deployster/deploylog"
)

// batch is what one revision at a time may be in: the stages from one to another.
type batch struct {
	name   string
	stages []string
}

// inside is which deployments are in which batches, as the log tells it.
type inside struct {
	*world
	pipeline string
	batches  []batch
	group    map[string]string // stage of each host group
	in       map[string]map[string]bool
	work     map[string]map[string]string // by deployment and step: stage
	finished map[string]map[string]bool   // stages, by deployment
	ended    map[string]bool
	rollback map[string]bool
}

// checkBatches checks that no two deployments were in one batch, be it only because a step
// of one was still being done.
func (w *world) checkBatches(events []deploylog.Event, pipeline string, group map[string]string, batches ...batch) {
	w.Helper()
	s := &inside{
		world: w, pipeline: pipeline, batches: batches, group: group, in: map[string]map[string]bool{}, work: map[string]map[string]string{},
		finished: map[string]map[string]bool{}, ended: map[string]bool{}, rollback: map[string]bool{},
	}
	for _, e := range events {
		s.event(e)
	}
}

// stage is the stage of a target; "" is none.
func (s *inside) stage(t deploylog.Target) string {
	parts := strings.Split(string(t), "/")
	if len(parts) < 3 || parts[1] != s.pipeline {
		return ""
	}
	if parts[0] == "stage" {
		return parts[2]
	}
	return s.group[parts[2]]
}

func (s *inside) event(e deploylog.Event) {
	if e.Target == deploylog.Target("pipeline/"+s.pipeline) {
		s.whole(e)
		return
	}
	stage, d := s.stage(e.Target), e.Deployment
	if stage == "" || e.Target.Kind() == "run" {
		return
	}
	key := string(e.Target) + " " + strings.TrimSuffix(e.Name, "-failed")
	switch {
	case e.Name == e.Target.Started():
		s.enter(e, d, stage)
	case s.work[d][key] != "":
		delete(s.work[d], key)
	case e.Name == "stage-finished-successfully":
		if s.finished[d] == nil {
			s.finished[d] = map[string]bool{}
		}
		s.finished[d][stage] = true
	}
	s.leave(d)
}

// whole is an event of the pipeline itself.
func (s *inside) whole(e deploylog.Event) {
	details := s.details(e)
	for _, step := range details.Steps {
		key := string(step.Target) + " " + step.Event
		switch e.Name {
		case "pipeline-steps-begun":
			if s.work[step.Deployment] == nil {
				s.work[step.Deployment] = map[string]string{}
			}
			s.work[step.Deployment][key] = s.stage(step.Target)
			s.enter(e, step.Deployment, s.stage(step.Target))
		case "pipeline-steps-ended":
			if step.Outcome != "lost" {
				delete(s.work[step.Deployment], key)
			}
			s.leave(step.Deployment)
		}
	}
	switch status := ends[e.Name]; status {
	case "":
	case "running":
		s.ended[e.Deployment] = false
		s.rollback[e.Deployment] = s.rollback[e.Deployment] || details.Rollback != nil
	default:
		s.ended[e.Deployment] = true
		s.leave(e.Deployment)
	}
}

func (s *inside) enter(e deploylog.Event, deployment, stage string) {
	for _, b := range s.batches {
		if !has(b.stages, stage) || s.rollback[deployment] && len(b.stages) > 1 {
			continue
		}
		for other, in := range s.in[b.name] {
			if in && other != deployment {
				s.Errorf("event %d: %s is at work in batch %s, in which is %s", e.Seq, deployment, b.name, other)
			}
		}
		if s.in[b.name] == nil {
			s.in[b.name] = map[string]bool{}
		}
		s.in[b.name][deployment] = true
	}
}

// leave takes a deployment out of the batches in which nothing of it is running any more.
func (s *inside) leave(deployment string) {
	for _, b := range s.batches {
		running := false
		for _, stage := range s.work[deployment] {
			running = running || has(b.stages, stage)
		}
		if !running && (s.ended[deployment] || s.finished[deployment][b.stages[len(b.stages)-1]]) {
			delete(s.in[b.name], deployment)
		}
	}
}

func has(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}
