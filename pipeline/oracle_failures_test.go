package pipeline

import "slices"

// failures are the failures that are to be recorded because of others, and
// what may be done in spite of them: what failed is replaced by its failure.
func (n *naive) failures(r *revision) (doable func(entry) bool, failures []entry) {
	broken := map[string]bool{} // targets in which nothing is done any more
	fail := func(target, event string) {
		failures = append(failures, entry{target, event})
		broken[target] = true
	}
	hasFailed := func(target string) bool {
		for f := range r.failed {
			if f.target == target {
				return true
			}
		}
		return false
	}
	belongs := map[string][]string{} // target → those it is in
	for _, s := range n.definition.Stages {
		st := "stage/" + n.name + "/" + s.Name
		if r.failed[entry{st, "stage-failed"}] > 0 {
			return func(entry) bool { return false }, []entry{{"pipeline/" + n.name, "pipeline-failed"}}
		}
		active := n.passed(r, entry{st, "stage-started"}) && !n.passed(r, entry{st, "stage-finished-successfully"})
		if !active {
			continue
		}
		if hasFailed(st) {
			fail(st, "stage-failed")
		}
		if s.Deploy == nil {
			continue
		}
		for _, g := range s.Deploy.HostGroups {
			gt := "host-group/" + n.name + "/" + g.Name
			belongs[gt] = []string{st}
			if hasFailed(gt) && !broken[st] && !n.passed(r, entry{gt, "host-group-finished-successfully"}) {
				fail(st, "stage-failed")
			}
		}
		for _, g := range s.Deploy.HostGroups {
			gt := "host-group/" + n.name + "/" + g.Name
			failedHosts := 0
			for _, h := range n.members[g.Name] {
				ht := "host/" + n.name + "/" + g.Name + "/" + h
				belongs[ht] = []string{gt, st}
				at, finished := r.failed[entry{ht, "host-failed"}], r.completed[entry{ht, "host-finished-successfully"}]
				if at > 0 && (finished == 0 || finished > at) {
					failedHosts++
				}
			}
			if broken[st] || n.passed(r, entry{gt, "host-group-finished-successfully"}) {
				continue
			}
			if failedHosts > g.MaxFailed.Of(len(n.members[g.Name])) {
				fail(gt, "host-group-failed")
				continue
			}
			for _, h := range n.members[g.Name] {
				ht := "host/" + n.name + "/" + g.Name + "/" + h
				over := r.failed[entry{ht, "host-failed"}] > 0 || r.completed[entry{ht, "host-finished-successfully"}] > 0
				if hasFailed(ht) && !over {
					fail(ht, "host-failed")
				}
			}
		}
	}
	return func(e entry) bool {
		if broken[e.target] {
			return false
		}
		return !slices.ContainsFunc(belongs[e.target], func(t string) bool { return broken[t] })
	}, failures
}
