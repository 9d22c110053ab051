package definition

import (
	"slices"

	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Wave is a step of a deployment: so many of its hosts get the new task, and then it waits.
type Wave struct {
	Hosts budget.Budget `json:"hosts"`           // with those of the steps before
	Pause *Duration     `json:"pause,omitempty"` // before the next step; nil is until somebody promotes it

	// Verify is the path of a manifest below the workspace, which is applied once the hosts
	// of the step are healthy: only when that has succeeded the deployment goes on. "" is none.
	Verify string `json:"verify,omitempty"`
}

// Verifies are the manifests that verify steps, each once.
func (c *Configuration) Verifies() (manifests []string) {
	for _, w := range c.Steps {
		if w.Verify != "" && !slices.Contains(manifests, w.Verify) {
			manifests = append(manifests, w.Verify)
		}
	}
	return manifests
}

// MostHosts is how many of n hosts have the new task after the last of some steps: a
// percentage is rounded up, and no step has fewer than those before it.
func MostHosts(steps []Wave, n int) (most int) {
	for _, w := range steps {
		most = max(most, w.Hosts.Up(n))
	}
	return most
}

const (
	maxWaves = 50
	forever  = "forever"
)

// readWaves reads the steps of a deployment.
func readWaves(n *yamlfile.Node) (waves []Wave, ok bool) {
	if n.Kind != yamlfile.List {
		n.Fail("must be a list of steps such as [{hosts: 1, pause: 10m}, {hosts: 100%%}], not %s", n.Kind)
		return nil, false
	}
	ok = true
	members := n.List("steps", maxWaves)
	for i, m := range members {
		w, good := readWave(m, i == len(members)-1)
		if before := len(waves) - 1; good && before >= 0 && !follows(waves[before].Hosts, w.Hosts) {
			m.Child("hosts").Fail("must be more than the %s of the step before", waves[before].Hosts)
			good = false
		}
		waves, ok = append(waves, w), ok && good
	}
	return waves, ok && len(members) == len(n.Members)
}

func readWave(n *yamlfile.Node, last bool) (w Wave, ok bool) {
	fields, ok := n.Fields("a step", "hosts", "pause", "verify")
	hosts, pause, verify := fields["hosts"], fields["pause"], fields["verify"]
	switch {
	case !ok:
		return w, false
	case hosts == nil:
		n.Fail("there is no hosts, with how many hosts have the new task after the step, such as 1 or 25%%")
		return w, false
	}
	b, ok := readBudget(hosts)
	switch {
	case !ok:
		return w, false
	case b.None():
		hosts.Fail("must be at least one host")
		return w, false
	case b.Count == 0 && b.Percent == 100 && !last:
		hosts.Fail("is all hosts, so no step can follow")
		return w, false
	case b.Count == 0 && b.Percent == 100 && pause != nil:
		pause.FailName("there is nothing to wait for after the step with all hosts")
		return w, false
	}
	w.Hosts = *b
	all := b.Count == 0 && b.Percent == 100
	if verify != nil {
		if w.Verify, ok = readManifest(verify); !ok {
			return w, false
		}
	}
	switch {
	case pause == nil && verify != nil && !all: // it waits for that alone
		w.Pause = new(Duration)
	case pause != nil && pause.Value != forever:
		d, ok := readDuration(pause, 0)
		w.Pause = &d
		return w, ok
	}
	return w, true
}

// follows reports whether a step can have so many hosts after another; of a count and a
// percentage that is only known when hosts are.
func follows(before, b budget.Budget) bool {
	if (before.Count > 0) != (b.Count > 0) {
		return true
	}
	return b.Count > before.Count || b.Percent > before.Percent
}
