package expression

import (
	"path"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/expression/python"
)

// Reads reports whether any template within v, which is made of maps, slices and
// scalars, refers to one of the names. It fails as Check does; of several
// failures, with the first in the order of sorted keys.
func (e *Evaluator) Reads(v any, names ...string) (bool, error) {
	return anyText(v, func(text string) (bool, error) {
		refs, err := e.Check(text)
		return slices.ContainsFunc(refs, func(r Ref) bool { return slices.Contains(names, r.Name) }), err
	})
}

// MayRead is Reads that also looks into the files that a template may include, whatever
// the names of those turn out to be. files are all that there are: of those in a directory
// that cannot be told apart, each may be included. A name that is bound somewhere counts
// as read nevertheless, as it may be read before.
func (e *Evaluator) MayRead(v any, files []string, names ...string) (bool, error) {
	return anyText(v, func(text string) (bool, error) {
		u, err := e.Examine(text)
		return err == nil && e.mayRead(u, files, func(name string) bool { return slices.Contains(names, name) }), err
	})
}

// Names are all names that a template within v may read, as MayRead has it, in no order.
// all is that it may be any name.
func (e *Evaluator) Names(v any, files []string) (names map[string]bool, all bool, err error) {
	names = map[string]bool{}
	all, err = anyText(v, func(text string) (bool, error) {
		u, err := e.Examine(text)
		return err == nil && e.mayRead(u, files, func(name string) bool {
			names[name] = true
			return false
		}), err
	})
	return names, all, err
}

// Possible is what templates within v may include, by constant names and others: the
// Candidates, Directories and Anywhere of a Usage.
func (e *Evaluator) Possible(v any) (possible Usage, err error) {
	_, err = anyText(v, func(text string) (bool, error) {
		u, err := e.Examine(text)
		possible.Candidates = append(possible.Candidates, u.Candidates...)
		possible.Directories = append(possible.Directories, u.Directories...)
		possible.Anywhere = possible.Anywhere || u.Anywhere
		return false, err
	})
	return possible, err
}

// mayRead follows what templates may include, each file once, until a name is as wanted.
// What cannot be read or is no template fails where it is included.
func (e *Evaluator) mayRead(u Usage, files []string, wanted func(name string) bool) bool {
	seen := map[string]bool{}
	for open := []Usage{u}; len(open) > 0; open = open[1:] {
		u := open[0]
		if slices.ContainsFunc(u.Mentions, wanted) {
			return true
		}
		if u.Anywhere {
			return true
		}
		possible := slices.Clone(u.Candidates)
		for _, name := range files {
			if slices.ContainsFunc(u.Directories, func(directory string) bool { return isBelow(name, directory) }) {
				possible = append(possible, name)
			}
		}
		for _, name := range possible {
			if name = path.Clean(name); seen[name] {
				continue
			}
			seen[name] = true
			if u, err := e.Includes(name); err == nil {
				u.Mentions = e.mentions(name)
				open = append(open, u)
			}
		}
	}
	return false
}

// mentions are the names that a file itself reads; none of one that is no template.
func (e *Evaluator) mentions(name string) (names []string) {
	var err error
	defer python.RecoverTo(&err)
	t, err := e.begin(nil).load(name)
	if err != nil {
		return nil
	}
	for _, r := range t.reads {
		names = append(names, r.Name)
	}
	return names
}

func isBelow(name, directory string) bool {
	directory = path.Clean(directory)
	return directory == "." || strings.HasPrefix(name, directory+"/")
}

// anyText reports whether something is true of any text within v.
func anyText(v any, of func(string) (bool, error)) (bool, error) {
	var within []any
	switch v := v.(type) {
	case string:
		return of(v)
	case []any:
		within = v
	case map[string]any:
		for _, key := range python.SortedKeys(v) {
			within = append(within, v[key])
		}
	}
	for _, item := range within {
		if is, err := anyText(item, of); is || err != nil {
			return is, err
		}
	}
	return false, nil
}
