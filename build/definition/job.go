package definition

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/duration"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/inventory"
)

// The bounds of a job, as people write it.
const (
	MaxArgs    = 1000
	MaxEnv     = 200 // variables of the environment
	MaxSources = 100
	MaxPlugs   = 50
	maxValue   = 32 << 10 // bytes
	MaxPids    = 1 << 22
	MinMemory  = 6 << 20 // that an engine gives a container at least
	MaxMemory  = 1 << 50
	MinTimeout = time.Second
	MaxTimeout = 7 * 24 * time.Hour
)

// jobKeys are the keys of what a job runs.
var jobKeys = []string{"image", "entrypoint", "args", "env", "secrets", "sources", "plugs", "resources", "network", "timeout", "target", "workers", "reuse"}

// own is where what is mounted into a container has its place.
const own = "/var/lib/deployster"

var (
	validVariable = pattern.Lazy(`^[A-Za-z_][A-Za-z0-9_]*$`)
	validMemory   = pattern.Lazy(`^([1-9][0-9]{0,8})(KiB|MiB|GiB)$`)
)

// with is the job of a package: what the package says, and else the defaults. Mappings are
// laid over each other, everything else is replaced.
func (j *Job) with(n *yamlfile.Node, fields map[string]*yamlfile.Node) *Job {
	if !slices.ContainsFunc(jobKeys, func(key string) bool { return fields[key] != nil }) {
		return j
	}
	merged := *j
	merged.Env, merged.Secrets = maps.Clone(j.Env), maps.Clone(j.Secrets)
	merged.read(fields)
	if fields["env"] != nil || fields["secrets"] != nil {
		merged.checkNames(n)
	}
	return &merged
}

// read reads what is there of the keys of a job.
func (j *Job) read(fields map[string]*yamlfile.Node) {
	for key, n := range fields {
		switch key {
		case "image":
			j.Image = readImage(n)
		case "entrypoint":
			j.Entrypoint = readLine(n, "the path of a program in the image")
		case "args":
			j.Args = readArgs(n)
		case "env":
			j.Env = readVariables(n, j.Env)
		case "secrets":
			j.Secrets = readSecrets(n, j.Secrets)
		case "sources":
			j.Sources = readSources(n)
		case "plugs":
			j.Plugs = readPlugs(n)
		case "resources":
			j.readResources(n)
		case "network":
			j.Network, _ = n.Line(`a network of the engine, or "none"`, maxName)
		case "timeout":
			if d, ok := n.Duration(duration.Duration(MinTimeout), duration.Duration(MaxTimeout)); ok {
				j.Timeout = time.Duration(d)
			}
		case "reuse":
			reuse, ok := n.Bool()
			if j.Reuse = &reuse; !ok {
				n.Fail("must be true or false")
			}
		case "target":
			j.Target = readTarget(n)
		case "workers":
			j.Workers = readWorkers(n)
		}
	}
}

func readLine(n *yamlfile.Node, what string) Value {
	text, _ := n.Line(what, MaxText)
	return Value{text, n.Position}
}

func readTarget(n *yamlfile.Node) Value {
	v := readLine(n, "a platform such as linux/amd64")
	if v.Text != "" && !inventory.IsPlatform(v.Text) {
		n.Fail("%.60q is not a platform, as linux/amd64 or linux/arm/v7 are", v.Text)
		v.Text = ""
	}
	return v
}

func readWorkers(n *yamlfile.Node) Value {
	v := readLine(n, `a query over the inventory, such as "attribute:role == builder"`)
	if _, err := inventory.ParseQuery(v.Text); v.Text != "" && err != nil {
		n.Fail("cannot select workers: %s", err)
		v.Text = ""
	}
	return v
}

func readArgs(n *yamlfile.Node) []Value {
	args := []Value{}
	for _, one := range n.List("arguments", MaxArgs) {
		args = append(args, readText(one))
	}
	return args
}

func readImage(n *yamlfile.Node) Value {
	v := readLine(n, "an image")
	if why := ImageProblem(v.Text); why != "" && !expression.IsTemplate(v.Text) {
		n.Fail("%.100q %s", v.Text, why)
	}
	return v
}

// readText reads a text that may be empty, and have several lines.
func readText(n *yamlfile.Node) Value {
	v := Value{"", n.Position}
	if n.Kind == yamlfile.Text && n.Value == "" {
		return v
	}
	if v.Text, _ = n.Text("a text", maxValue); strings.ContainsRune(v.Text, 0) {
		n.Fail("must not contain a NUL character")
	}
	return v
}

// readVariables reads variables of the environment, which are laid over others.
func readVariables(n *yamlfile.Node, over map[string]Value) map[string]Value {
	if n.Kind != yamlfile.Mapping {
		n.Fail("must be a mapping of names to texts, not %s", n.Kind)
		return over
	}
	all := make(map[string]Value, len(over)+len(n.Members))
	maps.Copy(all, over)
	for _, m := range n.Members {
		switch {
		case VariableProblem(m.Name) != "":
			m.FailName("%.60q %s", m.Name, VariableProblem(m.Name))
		default:
			all[m.Name] = readText(m)
		}
	}
	if len(all) > MaxEnv {
		n.Fail("has %d variables, with those of job; at most %d are possible", len(all), MaxEnv)
	}
	return all
}

// readSecrets reads variables as readVariables does, which must not hold what they hide.
func readSecrets(n *yamlfile.Node, over map[string]Value) map[string]Value {
	all := readVariables(n, over)
	if n.Kind != yamlfile.Mapping {
		return all
	}
	for _, m := range n.Members {
		if v := all[m.Name]; v.At == m.Position && !expression.IsTemplate(v.Text) {
			m.Fail(`is written down here for all to read: keep it in a file of variables, and name that, as in "{{ token }}"`)
		}
	}
	return all
}

// checkNames refuses a variable of the environment that is also a secret.
func (j *Job) checkNames(n *yamlfile.Node) {
	for _, name := range slices.Sorted(maps.Keys(j.Secrets)) {
		if other, twice := j.Env[name]; twice {
			n.Fail("the variable %s is in env, at %s, and in secrets, at %s; one of them is enough", name, other.At, j.Secrets[name].At)
		}
	}
}

func readSources(n *yamlfile.Node) []Value {
	all := make([]Value, 0, len(n.Members))
	taken := map[string]bool{}
	for _, one := range n.List("files and directories of the workspace", MaxSources) {
		v := readPath(one)
		if v.Text != "" && taken[v.Text] {
			one.Fail("duplicate source %q", v.Text)
			continue
		}
		taken[v.Text] = true
		all = append(all, v)
	}
	return all
}

// readPath reads a path below the workspace.
func readPath(n *yamlfile.Node) Value {
	v := readLine(n, "a path below the workspace")
	if v.Text == "" || expression.IsTemplate(v.Text) {
		return v
	}
	if why := PathProblem(v.Text); why != "" {
		n.Fail("%.100q %s", v.Text, why)
	}
	v.Text = path.Clean(v.Text)
	return v
}

// PathProblem says why a path cannot be one of a source; "" is that it can.
func PathProblem(text string) string {
	clean := path.Clean(text)
	switch {
	case text == "":
		return "must be a path below the workspace, not empty"
	case strings.HasPrefix(clean, "/"):
		return "is not below the workspace: sources have paths that begin there, such as src/gcc"
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return "leaves the workspace; sources lie below it"
	case clean == ".":
		return "is all of the workspace, with what Deployster keeps there; name what is needed of it"
	case clean == ".deployster" || strings.HasPrefix(clean, ".deployster/"):
		return "is what Deployster keeps, and no source"
	case len(clean) > MaxText || strings.ContainsFunc(clean, func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }):
		return "cannot be the path of a source"
	}
	return ""
}

func readPlugs(n *yamlfile.Node) (plugs []Plug) {
	taken := map[string]bool{}
	for _, one := range n.List("plugs", MaxPlugs) {
		fields, ok := one.Fields("a plug", "path", "container_path", "read_only")
		if !ok {
			continue
		}
		var plug Plug
		for key, at := range map[string]*string{"path": &plug.Path, "container_path": &plug.ContainerPath} {
			if fields[key] == nil {
				one.Fail("the plug has no %s", key)
			} else {
				*at = absolute(fields[key])
			}
		}
		switch inside := plug.ContainerPath; {
		case inside == "":
		case PlugProblem(inside) != "":
			fields["container_path"].Fail("%s %s", inside, PlugProblem(inside))
		case taken[inside]:
			fields["container_path"].Fail("there is another plug at %s", inside)
		}
		taken[plug.ContainerPath] = true
		if at := fields["read_only"]; at != nil {
			if plug.ReadOnly, ok = at.Bool(); !ok {
				at.Fail("must be true or false")
			}
		}
		plugs = append(plugs, plug)
	}
	return plugs
}

// absolute reads a path that begins with a slash; "" is none, which has been reported.
func absolute(n *yamlfile.Node) string {
	text, ok := n.Line("an absolute path", MaxText)
	if ok && !strings.HasPrefix(text, "/") {
		n.Fail("%.100q must be an absolute path: it begins with /", text)
		return ""
	}
	if !ok {
		return ""
	}
	return path.Clean(text)
}

func (j *Job) readResources(n *yamlfile.Node) {
	fields, ok := n.Fields("resources", "memory", "pids")
	if !ok {
		return
	}
	if at := fields["memory"]; at != nil {
		if text, ok := at.Line("a size such as 512MiB or 2GiB", maxName); ok {
			if j.Memory = size(text); j.Memory == 0 {
				at.Fail("must be a size such as 512MiB or 2GiB, of at least 6MiB, not %.60q", text)
			}
		}
	}
	if at := fields["pids"]; at != nil {
		j.Pids = int64(at.Integer("a number of processes and threads", 1, MaxPids))
	}
}

// size is a number of bytes; 0 is none.
func size(text string) int64 {
	parts := validMemory().FindStringSubmatch(text)
	if parts == nil {
		return 0
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	n *= map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[parts[2]]
	if err != nil || n < MinMemory || n > MaxMemory {
		return 0
	}
	return n
}
