package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// given is one of several approvals, with what its revision carried then.
type given struct {
	target, by, carried string
	attempt             int
}

// carried is what a revision carries, as the log has it: the manifests that it came with,
// those that later definitions brought, and its artifacts.
type carried struct {
	own     map[string]string // path → hash; nil of one that a former version released
	units   map[string]string // → manifest
	brought map[string]string // manifest → all that came with it
	refs    map[string]string // of artifacts
}

func (c *carried) text() string {
	return fmt.Sprint(c.own == nil, c.own, c.units, c.brought, c.refs)
}

// unitsOf are the manifests of a definition, by what applies them.
func unitsOf(d *definition.Definition) map[string]string {
	units := map[string]string{}
	for _, s := range d.Stages {
		switch {
		case s.Build != nil && s.Build.Group != "":
			units["packages "+s.Name] = s.Build.Group
		case s.Build != nil && s.Build.Manifest != "":
			units[s.Name] = s.Build.Manifest
		case s.Run != nil:
			units[s.Name] = s.Run.Manifest
		case s.Deploy != nil:
			for _, step := range s.Deploy.Steps {
				units[s.Name+" "+step.Event] = step.Manifest
			}
		}
	}
	return units
}

// brings gives a revision what comes with a definition.
func (c *carried) brings(d *definition.Definition, files map[string]string, adopts bool) {
	switch {
	case adopts:
		*c = carried{own: files, refs: c.refs}
		if files != nil {
			c.units = unitsOf(d)
		}
	case c.own != nil:
		c.brought = maps.Clone(c.brought)
		for unit, manifest := range unitsOf(d) {
			if c.units[unit] == "" {
				c.units[unit] = manifest
			}
			if files[manifest] != "" && c.own[manifest] == "" && c.brought[manifest] == "" {
				if c.brought == nil {
					c.brought = map[string]string{}
				}
				c.brought[manifest] = fmt.Sprint(files)
			}
		}
	}
}

// noteCarried takes note of what a revision carries.
func (n *naive) noteCarried(e deploylog.Event) {
	var data struct {
		Carries   map[string]string
		Ref       string
		Artifacts map[string]string
	}
	_ = json.Unmarshal(e.Data, &data)
	r := n.revision(e.Deployment)
	if r.carries == nil {
		r.carries = &carried{refs: map[string]string{}, own: data.Carries}
		if data.Carries != nil {
			r.carries.units = unitsOf(n.definition)
		}
	}
	if kind, ok := strings.CutPrefix(e.Name, "build-stage-received-"); ok && strings.HasSuffix(kind, "-artifact") {
		r.carries.refs[kind] = data.Ref
	}
	if e.Name == "stage-group-built" {
		maps.Copy(r.carries.refs, data.Artifacts)
	}
}

// noteApproval takes note of one of several approvals.
func (n *naive) noteApproval(e deploylog.Event) {
	var data struct {
		By       string
		Approval struct {
			Deployment string
			Attempt    int
		}
	}
	_ = json.Unmarshal(e.Data, &data)
	r := n.revision(data.Approval.Deployment)
	r.approvals = append(r.approvals, given{string(e.Target), data.By, r.carries.text(), data.Approval.Attempt})
}

// approvers are those whose approvals of a stage count: they were given in this attempt, and
// the revision carries what it did then.
func (n *naive) approvers(r *revision, target string) (by []string) {
	for _, g := range r.approvals {
		if g.target == target && g.attempt == r.attempt && g.carried == r.carries.text() && !slices.Contains(by, g.by) {
			by = append(by, g.by)
		}
	}
	return by
}

// isApproved: as many have approved as it takes now, though it took more when they did.
func (n *naive) isApproved(r *revision, e entry) bool {
	by := n.approvers(r, e.target)
	for _, s := range n.definition.Stages {
		if e.target == "stage/"+n.name+"/"+s.Name && s.Approval != nil && len(by) > 0 {
			return len(by) >= s.Approval.Approvals
		}
	}
	return false
}
