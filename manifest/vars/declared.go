package vars

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/declaration"
	"github.com/deployster-go/deployster/schema"
)

// declare sets the defaults that are known at once, over which everything else is laid.
func (v *variables) declare() {
	v.declared = make(map[string]*declaration.Variable, len(v.Declared))
	for _, d := range v.Declared {
		_, builtin := v.Builtin[d.Name]
		if builtin && strings.HasPrefix(d.Name, "_") {
			v.found.Add(manifest.Problem{Position: d.Position, Path: declaration.Key + "." + d.Name, Message: v.nameProblem(d.Name)})
			continue
		}
		v.declared[d.Name] = d
		v.Usage.Declare(d.Name)
		v.Usage.Examine(v.Evaluator, d.Written)
		if !builtin && d.Node != nil && !d.Late {
			v.values[d.Name] = d.Written
			v.hideParts(d.Name, d.Written)
		}
	}
	for _, name := range v.Unknown {
		if _, builtin := v.Builtin[name]; !builtin {
			v.doubt(name)
		}
	}
}

// doubt has the value of a variable be one that is not known.
func (v *variables) doubt(name string) {
	v.values[name], v.unknown[name] = expression.Unknown{}, true
}

// complete gives the declared variables that have no value their defaults, and holds all of
// them against what is declared.
func (v *variables) complete() {
	var missing []*declaration.Variable
	for _, d := range v.Declared {
		if _, given := v.values[d.Name]; !given && d.Node == nil && !v.failed[d.Name] && !v.Partly {
			missing = append(missing, d)
		}
	}
	for _, d := range missing {
		v.failed[d.Name] = true // what follows from it is no news
	}
	for _, d := range v.Declared {
		if _, builtin := v.Builtin[d.Name]; d.Late && !builtin && !v.failed[d.Name] {
			v.evaluate(d)
		}
	}
	for _, d := range v.Declared {
		value, is := v.values[d.Name]
		if !is || v.failed[d.Name] || v.unknown[d.Name] {
			continue
		}
		from, given := v.from[d.Name]
		if !given {
			from.Node = d.Node
		}
		for _, p := range d.Broken(value, from) {
			v.found.Add(p)
		}
	}
	if len(missing) > 0 {
		v.found.Add(withoutValue(missing))
	}
}

// evaluate gives a variable its default, which reads others. All that are given have their
// values by now.
func (v *variables) evaluate(d *declaration.Variable) {
	given, is := v.values[d.Name]
	if _, mapping := given.(map[string]any); is && !mapping {
		return
	}
	value, err := v.Evaluator.Resolve(d.Written, v.values)
	v.hideParts(d.Name, value)
	var undefined *expression.UndefinedError
	switch {
	case err == nil && is:
		v.values[d.Name] = merge(value, given)
	case err == nil:
		v.values[d.Name] = value
	case v.Partly && errors.As(err, &undefined) && undefined.Unknown:
		v.doubt(d.Name)
	case v.Partly && errors.As(err, &undefined): // nor is this one known
	default:
		v.fail(d.Name, err, manifest.Failure(d.Node, err))
	}
}

const (
	mostMissing = 20 // variables without a value that are named
	whereValues = "in a file of variables (--var-file FILE, or vars.auto.yaml in the workspace), or in the environment as " + EnvironmentPrefix
)

// withoutValue says of variables that nobody gives how to.
func withoutValue(missing []*declaration.Variable) manifest.Problem {
	first := missing[0]
	p := manifest.Problem{Position: first.Position, Path: declaration.Key + "." + first.Name}
	if len(missing) == 1 {
		p.Message = fmt.Sprintf("has no value; give it with --var %s=VALUE, %s%s", first.Name, whereValues, first.Name)
		return p
	}
	var others []string
	for _, d := range missing[1:] {
		others = append(others, fmt.Sprintf("%s (%s)", d.Name, d.Position))
	}
	p.Message = fmt.Sprintf("has no value, nor have %s; give each with --var NAME=VALUE, %sNAME", phrase.First(others, mostMissing), whereValues)
	return p
}

// fitting is what a text comes to as a value of the variable: the first of its readings
// that is one. typed is what it is where nothing is declared, failed why that is not known.
func fitting(d *declaration.Variable, text string, typed any, failed error) (any, error) {
	if expression.IsTemplate(text) {
		return typed, failed
	}
	var readings []any
	if failed == nil {
		readings = append(readings, typed)
	}
	if number, ok := number(text); ok {
		readings = append(readings, number)
	}
	value, fits := first(d, append(readings, text))
	if !fits && failed != nil {
		return nil, failed
	}
	return value, nil
}

// first is the first of some values that is one of the variable. Where none is, it is the one
// that comes nearest to it, as what is wrong with that is worth saying.
func first(d *declaration.Variable, values []any) (value any, fits bool) {
	near := -1
	for i, value := range values {
		found := d.Validate(value)
		if len(found) == 0 {
			return value, true
		}
		if near < 0 && !slices.ContainsFunc(found, func(v schema.Violation) bool { return len(v.Path) == 0 && v.Rule == "type" }) {
			near = i
		}
	}
	return values[max(0, near)], false
}

// number reads a number as JSON writes it.
func number(text string) (any, bool) {
	if !json.Valid([]byte(text)) {
		return nil, false
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, true
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}
