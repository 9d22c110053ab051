package diff

import (
	"maps"
	"slices"

	"github.com/deployster-go/deployster/schema"
)

// Leave returns a configuration which at a path has what there is; neither is changed. Where the
// path leads nowhere in what there is, as in a list that is shorter, the configuration stays.
func Leave(config, there any, path string) any {
	if path == "" {
		return there
	}
	steps := schema.Steps(path)
	switch wanted := config.(type) {
	case map[string]any:
		was, ok := there.(map[string]any)
		if !ok {
			return config
		}
		return leaveMember(wanted, was, step(steps, was, wanted))
	case []any:
		was, ok := there.([]any)
		i := steps[0].Index
		if !ok || i < 0 || i >= len(was) || i >= len(wanted) {
			return config
		}
		list := slices.Clone(wanted)
		list[i] = Leave(wanted[i], was[i], steps[0].Rest)
		return list
	}
	return config
}

func leaveMember(wanted, was map[string]any, at schema.Step) map[string]any {
	value, found := was[at.Key]
	configured, said := wanted[at.Key]
	mapping := maps.Clone(wanted)
	switch {
	case found && (said || at.Rest == ""):
		mapping[at.Key] = Leave(configured, value, at.Rest)
	case found:
		mapping[at.Key] = Leave(map[string]any{}, value, at.Rest)
	case at.Rest == "":
		delete(mapping, at.Key)
	}
	return mapping
}

// step returns the step whose key one of two mappings has, else the first one.
func step(steps []schema.Step, was, wanted map[string]any) schema.Step {
	for _, s := range steps {
		if has(was, s.Key) || has(wanted, s.Key) {
			return s
		}
	}
	return steps[0]
}
