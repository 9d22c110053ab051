package definition

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// The bounds of a definition. Those of names, in bytes, let every target that is
// made of them enter the log.
const (
	maxName     = 100
	maxVariable = 200 // of the name
	maxNested   = 20  // collections within each other, in the value of a variable
	maxPath     = 1000
	maxQuery    = 4096
	maxMaxOver  = 100_000
	maxDeadline = 720 * time.Hour
	maxWord     = 200 // of what can only be one of a few, or something short
)

// reserved are the variables of a task that the program sets.
var reserved = []string{"host", "host_attributes", "environment", "revision", "task"}

var (
	validName     = pattern.Lazy(`^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?(/[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?)*$`)
	validVariable = pattern.Lazy(`^[a-zA-Z][a-zA-Z0-9_-]*$`)
)

// setting reads one setting. It returns false when it reported a problem.
func (p *parser) setting(path string, n *yamlfile.Node) (ok bool) {
	d := &p.definition
	switch path {
	case "name":
		d.Name, ok = readName(n)
	case "type":
		d.Type, ok = readWord(n, "type", Daemon)
	case "task.manifest":
		d.Task.Manifest, ok = readManifest(n)
	case "task.vars":
		d.Task.Vars, ok = readVars(n)
	case "instance_group.query":
		d.InstanceGroup.Query, ok = p.readQuery(n)
	case "instance_group.max_leaving":
		d.InstanceGroup.MaxLeaving, ok = readBudget(n)
	case "allow":
		d.Allow, ok = allow.Read(n, p.query)
	default:
		return d.Deployment.setting(path, n)
	}
	return ok
}

// setting reads one setting of how a revision is deployed.
func (c *Configuration) setting(path string, n *yamlfile.Node) (ok bool) {
	switch path {
	case "deployment.method":
		c.Method, ok = readWord(n, "method", Replace, Surge)
	case "deployment.min_healthy_percent":
		c.MinHealthyPercent, ok = readInteger(n, "a percentage", 0, 100)
	case "deployment.max_unavailable":
		c.MaxUnavailable, ok = readBudget(n)
	case "deployment.max_surge":
		c.MaxSurge, ok = readBudget(n)
	case "deployment.steps":
		c.Steps, ok = readWaves(n)
	case "deployment.order_by":
		c.OrderBy, ok = n.Line("the name of an attribute of hosts, such as zone", maxWord)
	case "deployment.max_over":
		c.MaxOver, ok = readInteger(n, "a number of hosts", 1, maxMaxOver)
	case "deployment.min_healthy_time":
		c.MinHealthyTime, ok = readDuration(n, 0)
	case "deployment.bake":
		c.Bake, ok = readDuration(n, 0)
	case "deployment.healthy_deadline":
		c.HealthyDeadline, ok = readDuration(n, time.Second)
	case "deployment.progress_deadline":
		c.ProgressDeadline, ok = readDuration(n, time.Second)
	case "deployment.max_failed":
		c.MaxFailed, ok = readBudget(n)
	case "deployment.auto_rollback":
		c.AutoRollback, ok = readBoolean(n)
	case "deployment.drift":
		c.Drift, ok = readWord(n, "way to treat drift", RepairDrift, ReportDrift)
	}
	return ok
}

func readName(n *yamlfile.Node) (string, bool) {
	text, ok := n.Line("the name of the environment", maxName)
	if ok && !validName().MatchString(text) {
		n.Fail("%q cannot be the name of an environment: letters, digits, ., _ and - are possible, with a letter or digit at both ends, in parts divided by /", text)
		return "", false
	}
	return text, ok
}

func readManifest(n *yamlfile.Node) (string, bool) {
	text, ok := n.Line("the path of a manifest", maxPath)
	switch {
	case !ok:
	case strings.HasPrefix(text, "/"):
		n.Fail("must be a path within the workspace, not one that begins with /")
		return "", false
	case strings.Contains(text, `\`):
		n.Fail(`holds a \; the parts of a path are divided by /`)
		return "", false
	}
	return text, ok
}

// readWord reads one of a few words; what is what they are.
func readWord[T ~string](n *yamlfile.Node, what string, known ...T) (T, bool) {
	words := make([]string, len(known))
	for i, k := range known {
		words[i] = string(k)
	}
	text, ok := n.Line(strings.Join(words, " or "), maxWord)
	if ok && !slices.Contains(words, text) {
		n.FailLike(text, words, "unknown %s %.60q", what, text)
		return "", false
	}
	return T(text), ok
}

// readInteger takes a number that is written as text, too, as the seed does.
func readInteger(n *yamlfile.Node, what string, least, most int) (int, bool) {
	i, err := strconv.Atoi(n.Value)
	if n.Kind != yamlfile.Text {
		return n.Integer(what, least, most), err == nil && least <= i && i <= most
	}
	if err != nil || strconv.Itoa(i) != n.Value || i < least || i > most {
		n.Fail("must be %s from %d to %d, not %.60q", what, least, most, n.Value)
		return 0, false
	}
	return i, true
}

func readBoolean(n *yamlfile.Node) (value, ok bool) {
	switch text := strings.ToLower(n.Value); {
	case n.Kind != yamlfile.Boolean && n.Kind != yamlfile.Text:
		n.Fail("must be true or false, not %s", n.Kind)
	case text != "true" && text != "false":
		n.Fail("must be true or false, not %.60q", n.Value)
	default:
		return text == "true", true
	}
	return false, false
}

func readDuration(n *yamlfile.Node, least time.Duration) (Duration, bool) {
	return n.Duration(Duration(least), Duration(maxDeadline))
}

func readBudget(n *yamlfile.Node) (*budget.Budget, bool) {
	const what = "a number of hosts, or a percentage such as 10%"
	if n.Kind != yamlfile.Integer && n.Kind != yamlfile.Number && n.Kind != yamlfile.Text {
		n.Fail("must be %s, not %s", what, n.Kind)
		return nil, false
	}
	b, err := budget.Parse(n.Value)
	if err != nil {
		n.Fail("must be %s, not %.60q", what, n.Value)
		return nil, false
	}
	return &b, true
}

// readQuery reports what is wrong with a query at its place, if that is known.
func (p *parser) readQuery(n *yamlfile.Node) (string, bool) {
	text, ok := n.Text("a query such as attribute:stack == prod", maxQuery)
	if !ok {
		return "", false
	}
	err := p.query(text)
	if err == nil {
		return text, true
	}
	var placed interface {
		Place() (column int, problem string)
	}
	if errors.As(err, &placed) {
		column, problem := placed.Place()
		if n.FailInside(column-1, "%s", problem) {
			return "", false
		}
	}
	n.Fail("%s", err)
	return "", false
}

func readVars(n *yamlfile.Node) (map[string]any, bool) {
	if n.Kind != yamlfile.Mapping {
		n.Fail("must be a mapping of names to values, not %s", n.Kind)
		return nil, false
	}
	vars, ok := make(map[string]any, len(n.Members)), true
	for _, v := range n.Members {
		if problem := variableProblem(v.Name); problem != "" {
			v.FailName("%s", problem)
			ok = false
		}
		value, good := readValue(v)
		for _, one := range v.Scalars() { // which variables are texts is not known here
			why := one.Lost()
			if text, whole := strings.CutSuffix(one.Value, ".0"); why == "" && one.Kind == yamlfile.Number && whole {
				why = fmt.Sprintf("%s would become %s: put it in quotes for the text, or write %[2]s for the number", one.Value, text)
			}
			if good && why != "" {
				one.Fail("%s", why)
				good = false
			}
		}
		vars[v.Name], ok = value, ok && good
	}
	return vars, ok
}

// variableProblem says why a variable cannot be given to a task, "" when it can.
func variableProblem(name string) string {
	switch {
	case slices.Contains(reserved, name) || strings.HasPrefix(name, "_"):
		return fmt.Sprintf("%.60q is set by deployster itself and cannot be changed", name)
	case !validVariable().MatchString(name):
		return fmt.Sprintf("%.60q cannot be the name of a variable: it begins with a letter and consists of letters, digits, _ and -", name)
	case len(name) > maxVariable:
		return fmt.Sprintf("the name of the variable has %d bytes; at most %d are possible", len(name), maxVariable)
	}
	return ""
}

// readValue reads what JSON can express, nested no deeper than maxNested levels.
func readValue(n *yamlfile.Node) (value any, ok bool) {
	if !shallow(n, maxNested) {
		return nil, false
	}
	return n.Any()
}

// shallow reports the collections that are more than so many levels deep.
func shallow(n *yamlfile.Node, levels int) bool {
	if levels == 0 && (n.Kind == yamlfile.Mapping || n.Kind == yamlfile.List) {
		n.Fail("nested deeper than %d levels", maxNested)
		return false
	}
	ok := true
	for _, m := range n.Members {
		ok = shallow(m, levels-1) && ok
	}
	return ok
}
