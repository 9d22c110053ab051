package pipeline

// newestAt is, for each stage of a pipeline in which the newest revision wins, the newest
// deployment in progress that has come to its beginning, or past it. It is nil where
// every revision takes its turn.
func (s *State) newestAt() []*deployment {
	if !s.definition.Supersede {
		return nil
	}
	newest := make([]*deployment, len(s.layout.stages))
	for _, d := range s.deployments {
		if d.status != Running || d.rollback != nil {
			continue
		}
		for i := range s.layout.stages {
			if run := &d.stages[i]; run.begun || run.passed || d.reached(&s.layout.stages[i]) {
				newest[i] = d
			}
		}
	}
	return newest
}

// supersededBy is the revision for which a deployment is passed over: the newest one that
// has come to a stage for which it waits, or has finished. One that has begun a stage is
// not passed over there, whatever else it waits for.
func (s *State) supersededBy(d *deployment, newest []*deployment) string {
	if newest == nil || d.rollback != nil || d.status != Running || d.left == 0 {
		return ""
	}
	last := s.finished
	for i := range s.layout.stages {
		switch run := &d.stages[i]; {
		case run.passed:
		case run.begun:
			return ""
		case d.reached(&s.layout.stages[i]):
			last = max(last, newest[i].order)
		}
	}
	if last <= d.order {
		return ""
	}
	return s.revisions[last-1].Revision
}

func supersededText(by string) string { return "superseded by revision " + by }
