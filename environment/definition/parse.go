package definition

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// The defaults of a deployment. There is none of min_healthy_percent with
// Replace: every value of it means that tasks are down or that nothing happens.
const (
	defaultMaxOver          = 1
	defaultMinHealthyTime   = Duration(10 * time.Second)
	defaultHealthyDeadline  = Duration(5 * time.Minute)
	defaultProgressDeadline = Duration(10 * time.Minute)
)

// settings are the paths of all that a definition says, in the order of a file.
var settings = []string{
	"name",
	"type",
	"task.manifest",
	"task.vars",
	"instance_group.query",
	"instance_group.max_leaving",
	"deployment.method",
	"deployment.min_healthy_percent",
	"deployment.max_unavailable",
	"deployment.max_over",
	"deployment.max_surge",
	"deployment.order_by",
	"deployment.steps",
	"deployment.min_healthy_time",
	"deployment.bake",
	"deployment.healthy_deadline",
	"deployment.progress_deadline",
	"deployment.max_failed",
	"deployment.auto_rollback",
	"deployment.drift",
	"allow",
}

// required are the settings without a default, and what they are.
var required = [][2]string{
	{"name", "by which the environment is known"},
	{"task.manifest", "the path of what is applied to each host"},
	{"instance_group.query", "which selects the hosts, such as attribute:stack == prod"},
}

// Parse reads a definition; name is what its messages call the file. It fails
// with a *yamlfile.Error that holds every problem of the file. The digest of the
// task's manifest is the caller's to set.
//
// query checks a query over the inventory. An error that has
// a method Place() (column int, problem string) is reported at its place.
func Parse(name string, data []byte, query func(string) error) (*Definition, error) {
	p := newParser(Definition{Type: Daemon, Deployment: Configuration{
		Method: Replace, MinHealthyPercent: 100, MaxOver: defaultMaxOver,
		MinHealthyTime: defaultMinHealthyTime, HealthyDeadline: defaultHealthyDeadline, ProgressDeadline: defaultProgressDeadline, Drift: RepairDrift,
	}}, query)
	needs := "a definition needs name, task, instance_group and deployment"
	if err := yamlfile.Read(name, data, needs, p.read); err != nil {
		return nil, err
	}
	return &p.definition, nil
}

type parser struct {
	query      func(string) error
	definition Definition
	given      map[string]*yamlfile.Node // mappings and settings, by path
	bad        map[string]bool           // those with a problem that was reported
}

func newParser(d Definition, query func(string) error) *parser {
	return &parser{query: query, definition: d, given: map[string]*yamlfile.Node{}, bad: map[string]bool{}}
}

func (p *parser) read(root *yamlfile.Node) {
	p.mapping(root, "a definition", "")
	for _, r := range required {
		p.require(r[0], "there is no %s, %s", r[0], r[1])
	}
	if p.definition.Deployment.Method == Replace && !p.bad["deployment.method"] && p.given["deployment.max_unavailable"] == nil {
		p.require("deployment.min_healthy_percent", "%s", percentMissing)
	}
	for _, pair := range pairs {
		if second := p.given[pair[1]]; second != nil && p.given[pair[0]] != nil {
			second.FailName("%s", bothGiven(pair))
			p.bad[pair[1]] = true
		}
	}
	for _, f := range p.definition.Deployment.flaws() {
		p.report(f)
	}
	if stored, err := p.definition.stored(); err != nil {
		root.Fail("%s", err)
	} else {
		p.definition = stored
	}
}

const percentMissing = "there is no deployment.min_healthy_percent: with the method Replace hosts are without a task while it is replaced, so say how many percent of them must always have a healthy one " +
	"(75 lets a quarter be down at once, 0 all, 100 none), or with max_unavailable how many may be without one; with the method Surge none is down, and 100 is the default"

// mapping reads the settings of a mapping at a path.
func (p *parser) mapping(n *yamlfile.Node, what, path string) {
	p.given[path] = n
	keys := below(path)
	fields, ok := n.Fields(what, keys...)
	p.bad[path] = !ok
	for _, key := range keys {
		at, path := fields[key], join(path, key)
		switch {
		case at == nil:
		case len(below(path)) > 0:
			p.mapping(at, key, path)
		default:
			p.given[path] = at
			p.bad[path] = !p.setting(path, at)
		}
	}
}

// below are the keys of the mapping at a path.
func below(path string) (keys []string) {
	for _, s := range settings {
		if path != "" {
			var within bool
			if s, within = strings.CutPrefix(s, path+"."); !within {
				continue
			}
		}
		key, _, _ := strings.Cut(s, ".")
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// require reports that a setting is missing, in the mapping where it belongs or
// would.
func (p *parser) require(path, format string, args ...any) {
	if p.given[path] != nil {
		return
	}
	i := max(strings.LastIndexByte(path, '.'), 0)
	for _, at := range []string{path[:i], ""} {
		if n := p.given[at]; n != nil {
			if !p.bad[at] {
				n.Fail(format, args...)
			}
			return
		}
	}
}

// report reports a flaw at the first setting that it is about, if nothing else is
// wrong with these.
func (p *parser) report(f flaw) {
	if slices.ContainsFunc(f.about, func(path string) bool { return p.bad[path] }) {
		return
	}
	for _, path := range f.about {
		if n := p.given[path]; n != nil {
			n.Fail("%s", f.problem)
			return
		}
	}
}

// flaw is what is wrong with settings that are possible each by itself.
type flaw struct {
	about   []string // their paths
	problem string
}

func (c Configuration) flaws() (all []flaw) {
	const healthyTime, healthyDeadline, progressDeadline = "deployment.min_healthy_time", "deployment.healthy_deadline", "deployment.progress_deadline"
	if c.Method == Replace && c.MaxUnavailable != nil && c.MaxUnavailable.None() {
		all = append(all, flaw{[]string{"deployment.max_unavailable", "deployment.method"},
			"with the method Replace max_unavailable must be at least 1: a host is without a task while it is replaced, so no running task could ever be; with the method Surge it may be 0"})
	}
	if c.Method == Surge && c.MaxSurge != nil && c.MaxSurge.None() {
		all = append(all, flaw{[]string{"deployment.max_surge", "deployment.method"},
			"with the method Surge max_surge must be at least 1: a host has two tasks while one is replaced, so no running task could ever be"})
	}
	if c.MinHealthyTime >= c.HealthyDeadline {
		all = append(all, flaw{[]string{healthyTime, healthyDeadline}, fmt.Sprintf(
			"min_healthy_time (%s) must be shorter than healthy_deadline (%s): a task could never be healthy for long enough in time", c.MinHealthyTime, c.HealthyDeadline)})
	}
	if c.HealthyDeadline > c.ProgressDeadline {
		all = append(all, flaw{[]string{healthyDeadline, progressDeadline}, fmt.Sprintf(
			"healthy_deadline (%s) must not be longer than progress_deadline (%s): a deployment would be stuck while its tasks still have time", c.HealthyDeadline, c.ProgressDeadline)})
	}
	return all
}

// stored is the definition as the log will give it back; it must fit into an
// event, in which it is not alone.
func (d *Definition) stored() (back Definition, err error) {
	const most = deploylog.MaxData / 2
	data, err := json.Marshal(d)
	switch {
	case err != nil:
		return back, fmt.Errorf("the definition cannot be written as JSON: %w", err)
	case len(data) > most:
		return back, fmt.Errorf("the definition has %d bytes as JSON; at most %d fit into the deployment log", len(data), most)
	}
	return back, json.Unmarshal(data, &back)
}
