package definition

import (
	"errors"
	"strings"
	"time"

	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// The bounds of a definition. Those of names, in bytes, let every target and
// event that is made of them enter the log.
const (
	maxStages      = 1000
	maxGroups      = 1000 // of a stage
	maxSteps       = 1000 // of a stage
	maxArtifacts   = 1000 // of a stage
	maxBatches     = 1000
	maxTimeout     = 30 * 24 * time.Hour
	maxApprovals   = 100 // of a stage
	maxRetries     = 100
	maxPipeline    = 100
	maxName        = 200 // of a stage or host group
	maxEvent       = 100
	maxEnvironment = 100
	maxInputs      = 100 // of a stage
	maxKind        = 64
	maxPath        = 1000
	maxQuery       = 4096
)

var (
	validPipeline = pattern.Lazy(`^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$`)
	validName     = pattern.Lazy(`^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?(/[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?)*$`)
	validEvent    = pattern.Lazy(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	validKind     = pattern.Lazy(`^[a-z0-9]+(-[a-z0-9]+)*$`)
)

const nameRule = "letters, digits, ., _ and - are possible, with a letter or digit at both ends"

// stage reads a stage, independently of the others.
func (p *parser) stage(n *yamlfile.Node) {
	fields, ok := n.Fields("a stage", "name", "after", "build", "deploy", "run", "approval", "environment", "stop_on_failure", "inputs", "when")
	s, named := Stage{}, n
	if at := fields["name"]; at != nil {
		named = at
		s.Name, _ = p.name(at, "stage")
	} else if ok {
		n.Fail("the stage has no name")
	}
	if _, there := p.index[s.Name]; !there && s.Name != "" {
		p.index[s.Name] = len(p.definition.Stages)
	}
	if ok {
		p.stageKind(n, &s)
		readWhen(fields["when"], &s)
		p.stop(fields["stop_on_failure"], &s)
		p.inputs(fields["inputs"], &s)
	}
	p.definition.Stages = append(p.definition.Stages, s)
	p.named, p.after = append(p.named, named), append(p.after, fields["after"])
}

// name reads the name of a stage or host group, whose path no other thing of its kind may have.
func (p *parser) name(n *yamlfile.Node, thing string) (string, bool) {
	text, ok := n.Line("the name of a "+thing, maxName)
	if !ok {
		return "", false
	}
	if !validName().MatchString(text) {
		n.Fail("%q cannot be the name of a %s: %s, in parts divided by /", text, thing, nameRule)
	}
	t := thing + " " + Path(p.definition.Name, text)
	switch first := p.taken[t]; {
	case first == nil:
		p.taken[t] = n
	case first.Value == text:
		n.Fail("duplicate %s %q, first at %d:%d", thing, text, first.Position.Line, first.Position.Column)
	default:
		n.Fail("the %s %q is the same as %q at %d:%d: the name of the pipeline before it makes no difference", thing, text, first.Value, first.Position.Line, first.Position.Column)
	}
	return text, true
}

// does reads what the stage does.
func (p *parser) stageKind(n *yamlfile.Node, s *Stage) {
	kind := ""
	for _, at := range n.Members {
		switch at.Name {
		case "build", "deploy", "run", "approval", "environment":
		default:
			continue
		}
		if kind != "" {
			at.FailName("the stage already has %s; other work belongs in a stage of its own", kind)
			continue
		}
		kind = at.Name
		switch kind {
		case "build":
			s.Build = p.build(at)
		case "deploy":
			s.Deploy = p.deploy(at)
		case "run":
			s.Run = readRun(at)
		case "approval":
			s.Approval = readApproval(at)
		default:
			s.Environment = readEnvironment(at)
		}
	}
	if kind == "" {
		n.Fail("the stage does nothing; it needs one of build, deploy, run, environment and approval")
	}
}

func (p *parser) build(n *yamlfile.Node) *Build {
	fields, ok := n.Fields("build", "artifacts", "manifest", "retries", "timeout", "group", "packages")
	if !ok {
		return nil
	}
	if fields["group"] != nil {
		return readGroup(fields)
	}
	b := &Build{}
	if at := fields["packages"]; at != nil {
		at.FailName("packages are those of a group; name its file with group")
	}
	b.Manifest, b.Retries, b.Timeout = readApplied(fields)
	at := fields["artifacts"]
	if at == nil {
		n.Fail("there are no artifacts, the kinds of what is built; to run a manifest only, there are run stages")
		return nil
	}
	if at.Kind == yamlfile.List && len(at.Members) == 0 {
		at.Fail("a build waits for an artifact at least")
	}
	for _, k := range at.List("artifacts", maxArtifacts) {
		kind, ok := k.Line("a kind of artifact such as x86", maxKind)
		switch first := p.kinds[kind]; {
		case !ok:
		case !validKind().MatchString(kind):
			k.Fail("%q cannot be a kind of artifact: lower-case letters and digits are possible, in parts divided by -", kind)
		case first != nil:
			k.Fail("duplicate artifact %q, first at %d:%d", kind, first.Position.Line, first.Position.Column)
		default:
			p.kinds[kind] = k
			b.Artifacts = append(b.Artifacts, kind)
		}
	}
	return b
}

// readGroup reads which packages are built, and which of them later stages get.
func readGroup(fields map[string]*yamlfile.Node) *Build {
	b := &Build{}
	for _, other := range []string{"artifacts", "manifest", "retries"} {
		if at := fields[other]; at != nil {
			at.FailName("a build of a group has no %s: its packages say what is built; packages names those whose artifacts later stages get", other)
		}
	}
	b.Group, _ = fields["group"].Line("the path of a file of packages", maxPath)
	if at := fields["timeout"]; at != nil {
		b.Timeout = readTimeout(at)
	}
	if at := fields["packages"]; at != nil {
		taken := map[string]bool{}
		for _, p := range at.List("names of packages", maxArtifacts) {
			name, ok := p.Line("the name of a package", maxName)
			if ok && taken[name] {
				p.Fail("duplicate package %q", name)
			}
			taken[name] = true
			b.Packages = append(b.Packages, name)
		}
		if at.Kind == yamlfile.List && len(at.Members) == 0 {
			at.Fail("names no package; leave it out for all of them")
		}
	}
	return b
}

// readApplied reads what is done by a manifest, and how long a try may take.
func readApplied(fields map[string]*yamlfile.Node) (manifest string, retries int, timeout Duration) {
	if n := fields["manifest"]; n != nil {
		manifest, _ = n.Line("the path of a manifest", maxPath)
	}
	if n := fields["retries"]; n != nil {
		if fields["manifest"] == nil {
			n.FailName("there is no manifest that could be tried again")
		}
		retries = n.Integer("a number of times to try again", 0, maxRetries)
	}
	if n := fields["timeout"]; n != nil {
		timeout = readTimeout(n)
	}
	return manifest, retries, timeout
}

// readEnvironment reads the name of an environment.
func readEnvironment(n *yamlfile.Node) string {
	text, ok := n.Line("the name of an environment", maxEnvironment)
	if ok && !validName().MatchString(text) {
		n.Fail("%q cannot be the name of an environment: %s, in parts divided by /", text, nameRule)
	}
	return text
}

func readRun(n *yamlfile.Node) *Run {
	fields, ok := n.Fields("run", "manifest", "retries", "timeout")
	if !ok {
		return nil
	}
	r := &Run{}
	r.Manifest, r.Retries, r.Timeout = readApplied(fields)
	if fields["manifest"] == nil {
		n.Fail("there is no manifest to run")
	}
	return r
}

func (p *parser) deploy(n *yamlfile.Node) *Deploy {
	fields, ok := n.Fields("deploy", "host_groups", "steps")
	if !ok {
		return nil
	}
	d := &Deploy{}
	for _, key := range []string{"host_groups", "steps"} {
		switch at := fields[key]; {
		case at == nil:
			n.Fail("there are no %s", key)
		case at.Kind == yamlfile.List && len(at.Members) == 0:
			at.Fail("must not be empty")
		}
	}
	if at := fields["host_groups"]; at != nil {
		for _, g := range at.List("host groups", maxGroups) {
			d.HostGroups = append(d.HostGroups, p.group(g))
		}
	}
	if at := fields["steps"]; at != nil {
		first := map[string]*yamlfile.Node{}
		for _, s := range at.List("steps", maxSteps) {
			d.Steps = append(d.Steps, readStep(s, first))
		}
	}
	return d
}

func (p *parser) group(n *yamlfile.Node) (g HostGroup) {
	fields, ok := n.Fields("a host group", "name", "hosts", "max_failed", "max_leaving", "allow_empty", "max_in_flight")
	if !ok {
		return g
	}
	if at := fields["name"]; at == nil {
		n.Fail("the host group has no name")
	} else {
		g.Name, _ = p.name(at, "host group")
	}
	if at := fields["hosts"]; at == nil {
		n.Fail("the host group has no hosts, the query that selects them")
	} else if text, ok := at.Text("a query such as attribute:stack == beta", maxQuery); ok {
		g.Hosts = text
		p.check(at)
	}
	if at := fields["max_failed"]; at != nil {
		g.MaxFailed, _ = readBudget(at)
	}
	if at := fields["max_leaving"]; at != nil {
		if most, ok := readBudget(at); ok {
			g.MaxLeaving = &most
		}
	}
	if at := fields["allow_empty"]; at != nil {
		g.AllowEmpty = readBool(at)
	}
	if at := fields["max_in_flight"]; at != nil {
		switch most, ok := readBudget(at); {
		case !ok:
		case most.Count == 0 && most.Percent == 0:
			at.Fail("must let one host at least be in flight; to let nothing begin, there is pipeline pause")
		default:
			g.MaxInFlight = &most
		}
	}
	return g
}

// readTimeout reads how long something may take.
func readTimeout(n *yamlfile.Node) Duration {
	timeout, _ := n.Duration(Duration(time.Second), Duration(maxTimeout))
	return timeout
}

// stop reads whether a failure in a stage keeps later revisions out. What the pipeline says
// is for the stages that can.
func (p *parser) stop(own *yamlfile.Node, s *Stage) {
	switch {
	case own == nil && s.Closing():
	case own == nil && s.changesOthers():
		s.StopOnFailure = p.stopOnFailure
	case own == nil:
	case s.Closing():
		own.FailName("a failure in a stage with when keeps no later revision out")
	case s.Build != nil || s.Approval != nil:
		own.FailName("later revisions are kept out only of stages with deploy, run or environment, not of this %s", s.Kind())
	default:
		stops := readBool(own)
		s.StopOnFailure = &stops
	}
	if s.StopOnFailure != nil && *s.StopOnFailure {
		s.StopOnFailure = nil // as by default
	}
}

// readBool reads true or false.
func readBool(n *yamlfile.Node) bool {
	value, ok := n.Bool()
	if !ok || n.Kind != yamlfile.Boolean {
		n.Fail("must be true or false, not %s", n.Kind)
	}
	return value
}

// readBudget reads how many hosts.
func readBudget(n *yamlfile.Node) (budget.Budget, bool) {
	const what = "a number of hosts, or a percentage such as 10%"
	if n.Kind != yamlfile.Integer && n.Kind != yamlfile.Number && n.Kind != yamlfile.Text {
		n.Fail("must be %s, not %s", what, n.Kind)
		return budget.Budget{}, false
	}
	b, err := budget.Parse(n.Value)
	if err != nil {
		n.Fail("must be %s, not %.60q", what, n.Value)
	}
	return b, err == nil
}

// check reports what is wrong with a query, at its place if that is known.
func (p *parser) check(n *yamlfile.Node) {
	err := p.query(n.Value)
	if err == nil {
		return
	}
	var placed interface {
		Place() (column int, problem string)
	}
	if errors.As(err, &placed) {
		column, problem := placed.Place()
		if n.FailInside(column-1, "%s", problem) {
			return
		}
	}
	n.Fail("%s", err)
}

// readStep reads a step; first are the events of the stage so far.
func readStep(n *yamlfile.Node, first map[string]*yamlfile.Node) (s HostStep) {
	fields, ok := n.Fields("a step", "event", "manifest", "retries", "timeout", "prune")
	if !ok {
		return s
	}
	if at := fields["event"]; at == nil {
		n.Fail("the step has no event, the name of what is recorded when it is done")
	} else if event, ok := at.Line("the name of an event such as host-deployed", maxEvent); ok {
		s.Event = event
		why := reserved(event)
		switch before := first[event]; {
		case !validEvent().MatchString(event):
			at.Fail("%q cannot be the name of an event: lower-case letters and digits are possible, in words divided by -, as in host-deployed", event)
		case why != "":
			at.Fail("the event %q is reserved: %s", event, why)
		case before != nil:
			at.Fail("duplicate event %q in this stage, first at %d:%d", event, before.Position.Line, before.Position.Column)
		default:
			first[event] = at
		}
	}
	s.Manifest, s.Retries, s.Timeout = readApplied(fields)
	if fields["manifest"] == nil {
		n.Fail("the step has no manifest")
	}
	if at := fields["prune"]; at != nil {
		if prune := readBool(at); !prune {
			s.Prune = &prune // true is the default
		}
	}
	return s
}

// reserved is why a step may not have an event, "" if it may.
func reserved(event string) string {
	switch {
	case event == "host-started", event == "host-finished-successfully":
		return "it marks where all the steps on a host begin or end"
	case strings.HasSuffix(event, "-failed"):
		return "an event that ends in -failed records that a step failed"
	case event == "host":
		return "its failure could not be distinguished from that of the whole host"
	}
	for _, others := range []string{"pipeline-", "stage-", "host-group-", "build-stage-"} {
		if strings.HasPrefix(event, others) {
			return "what begins with " + others + " is not about a host"
		}
	}
	return ""
}
