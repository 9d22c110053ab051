// Package usage finds the variables that are given and that nothing reads, so that a mistyped name is
// noticed.
package usage

import (
	"fmt"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Variables collects which variables were given, and which ones expressions read. Its zero value is
// ready for use; one that is nil collects nothing.
type Variables struct {
	given   []given
	read    map[string]bool // names that some expression may read
	named   map[string]bool // of those the ones that must be variables
	unknown bool            // some expression may read any name
	doubts  []yamlfile.Problem
}

// given is a variable, with the place where it was given.
type given struct {
	name string
	at   yamlfile.Problem
}

// Give notes a variable that is given.
func (u *Variables) Give(name string, at yamlfile.Problem) {
	if u != nil {
		u.given = append(u.given, given{name, at})
	}
}

// Doubt notes that a value may be meant in another way.
func (u *Variables) Doubt(p yamlfile.Problem) {
	if u != nil && !slices.Contains(u.doubts, p) {
		u.doubts = append(u.doubts, p)
	}
}

// Declare notes a variable that a manifest declares: whoever gives it does not mistype it.
func (u *Variables) Declare(name string) {
	u.Add(expression.Usage{Mentions: []string{name}, Refs: []expression.Ref{{Name: name}}}, nil)
}

// Add notes what an expression reads, some of which may be dependencies.
func (u *Variables) Add(e expression.Usage, dependencies map[string]string) {
	if u == nil {
		return
	}
	if u.read == nil {
		u.read, u.named = map[string]bool{}, map[string]bool{}
	}
	u.unknown = u.unknown || e.Dynamic
	for _, name := range e.Mentions {
		u.read[name] = true
	}
	for _, ref := range e.Refs {
		if _, alias := dependencies[ref.Name]; !alias {
			u.named[ref.Name] = true
		}
	}
}

// Examine notes what the expressions within a value read. What is wrong with
// them is for others to report.
func (u *Variables) Examine(e *expression.Evaluator, v any) {
	if u == nil {
		return
	}
	switch v := v.(type) {
	case string:
		found, err := e.Examine(v)
		u.unknown = u.unknown || err != nil
		u.Add(found, nil)
	case []any:
		for _, item := range v {
			u.Examine(e, item)
		}
	case map[string]any:
		for _, item := range v {
			u.Examine(e, item)
		}
	}
}

// Unread lists the doubts, and the variables that were given and that nothing reads, each with
// what may have been meant. Where that is not certain, because the name of an
// included file is an expression, there are none of these.
func (u *Variables) Unread() []yamlfile.Problem {
	if u == nil {
		return nil
	}
	problems := slices.Clone(u.doubts)
	if u.unknown {
		return problems
	}
	read := slices.Sorted(maps.Keys(u.named))
	for _, g := range u.given {
		if u.read[g.name] {
			continue
		}
		p := g.at
		p.Message, p.Hint = fmt.Sprintf("nothing reads the variable %q", g.name), suggest.Closest(g.name, read)
		if !slices.Contains(problems, p) {
			problems = append(problems, p)
		}
	}
	return problems
}
