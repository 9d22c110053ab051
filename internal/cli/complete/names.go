package complete

import (
	"os"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/pipeline"
)

// unreadable reports whether a path is of no regular file: reading it could make
// the shell wait, or take away what somebody else is to read.
func unreadable(path string) bool {
	info, err := os.Stat(path)
	return err != nil || !info.Mode().IsRegular()
}

// living are the names that were begun and not ended since, sorted.
func (c *Completion) living(kind, begins, ends string) []Candidate {
	ended := map[deploylog.Target]int64{}
	for _, e := range c.events(deploylog.Filter{Target: deploylog.Target(kind + "/"), Name: ends}) {
		ended[e.Target] = e.Seq
	}
	begun := map[string]bool{}
	for _, e := range c.events(deploylog.Filter{Target: deploylog.Target(kind + "/"), Name: begins}) {
		if e.Seq > ended[e.Target] {
			begun[strings.TrimPrefix(string(e.Target), kind+"/")] = true
		}
	}
	var found []Candidate
	for name := range begun {
		found = append(found, Candidate{Word: name})
	}
	slices.SortFunc(found, func(a, b Candidate) int { return strings.Compare(a.Word, b.Word) })
	return found
}

func pipelineNames(c *Completion) []Candidate {
	return c.living("pipeline", pipeline.EventDefined, pipeline.EventDeleted)
}

// pipeline is folded from its own events, without those of its stages.
func (c *Completion) pipeline(name string) *pipeline.State {
	s := pipeline.New(name)
	for _, e := range c.events(deploylog.Filter{Target: pipeline.Target(name)}) {
		s.Apply(e)
	}
	return s
}

func isRunning(s pipeline.Status) bool { return s == pipeline.Running }

func hasEnded(s pipeline.Status) bool { return s == pipeline.Failed || s == pipeline.Cancelled }

// revisionsOf are the revisions of the pipeline on the command line that have
// come so far, newest first.
func revisionsOf(fits func(pipeline.Status) bool) candidates {
	return func(c *Completion) []Candidate {
		var found []Candidate
		for _, r := range slices.Backward(c.pipeline(c.args[0]).Registrations()) {
			if fits(r.Status) {
				found = append(found, Candidate{r.Revision, string(r.Status)})
			}
		}
		return found
	}
}

// stages are those of the pipeline on the command line.
func (c *Completion) stages() []pipeline.Stage {
	if d := c.pipeline(c.args[0]).Definition(); d != nil {
		return d.Stages
	}
	return nil
}

func approvalStages(c *Completion) []Candidate {
	var found []Candidate
	for _, s := range c.stages() {
		if s.Approval != nil {
			found = append(found, Candidate{Word: s.Name})
		}
	}
	return found
}

func artifactKinds(c *Completion) []Candidate {
	var found []Candidate
	for _, s := range c.stages() {
		if s.Build != nil && s.Build.Manifest == "" {
			found = append(found, words(s.Build.Artifacts...)(c)...)
		}
	}
	return found
}

// pipelineTargets are what of pipelines can be explained.
func pipelineTargets(c *Completion) []Candidate {
	var found []Candidate
	for _, p := range pipelineNames(c) {
		s := c.pipeline(p.Word)
		for _, e := range c.events(deploylog.Filter{Target: deploylog.Target("host-group/" + p.Word + "/"), Name: pipeline.EventMembersChanged}) {
			s.Apply(e)
		}
		for _, place := range s.Places() {
			found = append(found, Candidate{Word: string(place.Target)})
		}
	}
	return found
}

func allTargets(c *Completion) []Candidate {
	var found []Candidate
	for _, e := range environmentNames(c) {
		found = append(found, Candidate{Word: string(environment.Target(e.Word))})
	}
	return append(found, pipelineTargets(c)...)
}

func environmentNames(c *Completion) []Candidate {
	return c.living("environment", environment.EventCreated, environment.EventDeleted)
}

// environmentRevisions are those of the environment on the command line, newest
// first.
func environmentRevisions(c *Completion) []Candidate {
	if len(c.args) == 0 {
		return nil
	}
	var found []Candidate
	for _, name := range []string{environment.EventCreated, environment.EventUpdated} {
		for _, e := range c.events(deploylog.Filter{Target: environment.Target(c.args[0]), Name: name}) {
			found = append(found, Candidate{Word: e.Revision, about: e.CreatedAt.Local().Format("2006-01-02 15:04:05")})
		}
	}
	slices.Reverse(found)
	return found
}
