package manifest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/manifest/address"
)

// Named returns the resources that a name of the command line means: itself, all instances
// of what is declared with for_each, or all that is in a module. The name of a module without
// a key means all its instances, too.
func (m *Manifest) Named(name string) ([]string, error) {
	if m.resources[name] != nil {
		return []string{name}, nil
	}
	return m.find(m.declared, "", name)
}

// find returns what a name means of what is declared below an address, which is empty or ends
// with a dot.
func (m *Manifest) find(declares map[string]*expansion, below, name string) (names []string, err error) {
	part, rest := address.First(name)
	of, key, one := address.Written(part)
	x := declares[of]
	switch {
	case x == nil || rest != "" && (rest[0] != '.' || x.modules == nil):
		return nil, m.unknown(declares, below, name)
	case x.late && (!one || address.ValidKey(key)):
		return x.lateName(key, one), nil
	case one && (!x.many || x.names[key] == ""):
		return nil, noSuchInstance(below+of, key, x)
	case x.off != "":
		return nil, fmt.Errorf("the resource %q is off: %s", below+of, x.off)
	}
	keys := x.keys
	if one {
		keys = []string{key}
	}
	found := len(keys) == 0 && rest == ""
	names = []string{}
	for _, k := range keys {
		switch {
		case x.modules == nil:
			names = append(names, x.names[k])
		case rest == "":
			names = append(names, x.modules[k].contains...)
		default:
			inner, failed := m.find(x.modules[k].names, x.names[k]+".", rest[1:])
			if failed != nil {
				err = failed // of one, which others need not have
				continue
			}
			names = append(names, inner...)
		}
		found = true
	}
	switch {
	case found:
		return names, nil
	case err == nil:
		err = m.unknown(nil, below, name)
	}
	return nil, err
}

// lateName is what a name means of which the instances are found out in a run: whether there
// is one with a key is found out then, too.
func (x *expansion) lateName(key string, one bool) []string {
	if one {
		return []string{address.Instance(x.names[""], key)}
	}
	return []string{x.names[""]}
}

func noSuchInstance(name, key string, x *expansion) error {
	problem := fmt.Sprintf("%q has no instance %q", name, key)
	if near := suggest.Closest(key, x.keys); near != "" {
		return fmt.Errorf("%s, did you mean %q?", problem, address.Instance(name, near))
	}
	if len(x.keys) == 0 || !x.many {
		return errors.New(problem + "; it has none")
	}
	return fmt.Errorf("%s; there are %s", problem, phrase.List(x.keys))
}

// unknown says that a name leads nowhere below an address.
func (m *Manifest) unknown(declares map[string]*expansion, below, name string) error {
	whole := below + name
	known := slices.Sorted(maps.Keys(m.resources))
	first, _ := address.First(name)
	of, _, _ := address.Written(first)
	near := suggest.Closest(of, slices.Sorted(maps.Keys(declares)))
	if near != "" {
		near = below + near
	} else {
		near = suggest.Closest(whole, known)
	}
	if near != "" {
		return fmt.Errorf("there is no resource %q, did you mean %q?", whole, near)
	}
	return fmt.Errorf("there is no resource %q; there are %s", whole, phrase.List(known))
}
