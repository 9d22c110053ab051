package pipeline

import "github.com/deployster-go/deployster/pipeline/deployment"

// newestRevisions are those that have come to a stage, by the order of their release.
type newestRevisions struct {
	order int
	fix   int // that was released as one
}

// newestAt is, for each stage of a pipeline in which the newest revision wins, the newest
// deployment in progress that has come to its beginning, or past it. It is nil where
// every revision takes its turn.
func (s *State) newestAt() (newest []newestRevisions) {
	if !s.definition.Supersede {
		return nil
	}
	newest = make([]newestRevisions, len(s.layout.Stages))
	for _, d := range s.deployments {
		if d.Status != deployment.Running || d.Only() != "" {
			continue
		}
		for i := range s.layout.Stages {
			if run := &d.Stages[i]; run.Begun || run.Passed || d.Reached(&s.layout.Stages[i]) {
				newest[i].order = d.Order
				if d.Fix {
					newest[i].fix = d.Order
				}
			}
		}
	}
	return newest
}

// supersededBy is the revision for which a deployment is passed over: the newest one that
// has come to a stage for which it waits, or has finished. One that has begun a stage is
// not passed over there, whatever else it waits for. While a stage keeps revisions out, one
// that was released as a fix is passed over only for another fix: the others do not get in.
func (s *State) supersededBy(d *deployment.Deployment, newest []newestRevisions) string {
	if newest == nil || d.Only() != "" || d.Status != deployment.Running || d.Left == 0 || d.End != nil {
		return ""
	}
	closing := 0 // stages that it has not begun
	last, awaited := s.finished, d.Fix && s.outcomes.FailedBefore(s.layout, d)
	for i := range s.layout.Stages {
		switch run := &d.Stages[i]; {
		case run.Passed:
		case run.Begun:
			return ""
		case s.layout.Stages[i].Closing():
			closing++
		case d.Reached(&s.layout.Stages[i]) && awaited:
			last = max(last, newest[i].fix)
		case d.Reached(&s.layout.Stages[i]):
			last = max(last, newest[i].order)
		}
	}
	if last <= d.Order || d.Left == closing { // it has gone through what others wait for
		return ""
	}
	return s.revisions[last-1].Revision
}
