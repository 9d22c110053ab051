package pipeline

import "github.com/deployster-go/deployster/pipeline/definition"

// stagesOf are the stages that a revision goes through: all, or the one that it rolls back.
func (n *naive) stagesOf(r *revision) []definition.Stage {
	if r.only == "" {
		return n.definition.Stages
	}
	for _, s := range n.definition.Stages {
		if s.Name == r.only {
			s.After = nil
			return []definition.Stage{s}
		}
	}
	return nil
}
