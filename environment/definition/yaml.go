package definition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// YAML is the definition as a file that Parse reads to the same, with all
// defaults written out and without the digests.
func (d *Definition) YAML() []byte {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(file("", d.tree())); err != nil {
		return nil // what was made of JSON can be written
	}
	return out.Bytes()
}

// tree is the definition as JSON has it.
func (d *Definition) tree() map[string]any {
	var tree map[string]any
	data, err := json.Marshal(d)
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err != nil || decoder.Decode(&tree) != nil {
		return nil // no Parse, Set or log has made it
	}
	numbers(tree)
	deployment, _ := tree["deployment"].(map[string]any)
	for name, b := range map[string]*budget.Budget{
		"max_failed": d.Deployment.MaxFailed, "max_unavailable": d.Deployment.MaxUnavailable, "max_surge": d.Deployment.MaxSurge,
	} {
		if b != nil { // a count is a number to people
			deployment[name], _ = typed(b.String())
		}
	}
	for i, w := range d.Deployment.Steps {
		steps, _ := deployment["steps"].([]any)
		step, _ := steps[i].(map[string]any)
		step["hosts"], _ = typed(w.Hosts.String())
		if w.Verify != "" && w.Pause == nil && w.Hosts.Percent != 100 { // else it would wait for that alone
			step["pause"] = forever
		}
	}
	if d.InstanceGroup.MaxLeaving != nil {
		group, _ := tree["instance_group"].(map[string]any)
		group["max_leaving"], _ = typed(d.InstanceGroup.MaxLeaving.String())
	}
	return tree
}

// file writes the settings of the mapping at a path.
func file(path string, from map[string]any) *yaml.Node {
	to := &yaml.Node{Kind: yaml.MappingNode}
	for _, key := range below(path) {
		value, given := from[key]
		if !given {
			continue
		}
		n := yamlValue(value)
		switch members, _ := value.(map[string]any); {
		case join(path, key) == "task.vars":
			n.Style = 0 // one variable a line
		case join(path, key) == "allow": // it has no settings
		case members != nil:
			n = file(join(path, key), members)
		}
		to.Content = append(to.Content, yamlValue(key), n)
	}
	return to
}

// yamlValue writes a value as JSON has it, in one line.
func yamlValue(value any) *yaml.Node {
	switch v := value.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, yamlValue(key), yamlValue(v[key]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, item := range v {
			n.Content = append(n.Content, yamlValue(item))
		}
		return n
	case string:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v}
		if !printable(v) || yamlfile.Ambiguous(v) {
			n.Style = yaml.DoubleQuotedStyle
		}
		return n
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v)}
	}
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
