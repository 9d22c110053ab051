package pipeline

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
	newest = make([]newestRevisions, len(s.layout.stages))
	for _, d := range s.deployments {
		if d.status != Running || d.rollback != nil {
			continue
		}
		for i := range s.layout.stages {
			if run := &d.stages[i]; run.begun || run.passed || d.reached(&s.layout.stages[i]) {
				newest[i].order = d.order
				if d.fix {
					newest[i].fix = d.order
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
func (s *State) supersededBy(d *deployment, newest []newestRevisions) string {
	if newest == nil || d.rollback != nil || d.status != Running || d.left == 0 {
		return ""
	}
	last, awaited := s.finished, d.fix && s.stopsBefore(d)
	for i := range s.layout.stages {
		switch run := &d.stages[i]; {
		case run.passed:
		case run.begun:
			return ""
		case d.reached(&s.layout.stages[i]) && awaited:
			last = max(last, newest[i].fix)
		case d.reached(&s.layout.stages[i]):
			last = max(last, newest[i].order)
		}
	}
	if last <= d.order {
		return ""
	}
	return s.revisions[last-1].Revision
}

// stopsBefore reports whether an earlier revision failed in a stage, which waits for a fix.
func (s *State) stopsBefore(d *deployment) bool {
	for i := range s.layout.stages {
		if p, failed := s.stops[s.layout.stages[i].target]; failed && p.order < d.order && s.layout.stages[i].StopsOnFailure() {
			return true
		}
	}
	return false
}

func supersededText(by string) string { return "superseded by revision " + by }
