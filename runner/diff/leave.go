package diff

import (
	"maps"
	"slices"
)

// Leave returns a configuration which at a path has what there is; neither is changed. Where the
// path leads nowhere in what there is, as in a list that is shorter, the configuration stays.
func Leave(config, there any, path []any) any {
	if len(path) == 0 {
		return there
	}
	switch step := path[0].(type) {
	case string:
		was, isMap := there.(map[string]any)
		wanted, ok := config.(map[string]any)
		if !isMap || !ok {
			return config
		}
		value, found := was[step]
		mapping := maps.Clone(wanted)
		configured, said := wanted[step]
		switch {
		case found && (said || len(path) == 1):
			mapping[step] = Leave(configured, value, path[1:])
		case found:
			mapping[step] = Leave(map[string]any{}, value, path[1:])
		case len(path) == 1:
			delete(mapping, step)
		}
		return mapping
	case int:
		was, isList := there.([]any)
		wanted, ok := config.([]any)
		if !isList || !ok || step >= len(was) || step >= len(wanted) {
			return config
		}
		list := slices.Clone(wanted)
		list[step] = Leave(wanted[step], was[step], path[1:])
		return list
	}
	return config
}
