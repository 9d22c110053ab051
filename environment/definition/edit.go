package definition

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

const varsPrefix = "task.vars."

// Set returns a definition in which some settings are different, each given as
// KEY=VALUE:
//
//	task.vars.image=log-daemon:2
//	task.manifest=daemon.yaml
//	instance_group.query=attribute:stack in (prod, gamma)
//	deployment.method=Surge
//
// The value of a variable is read as that of --var: true, 3, null, [a, b] and
// {a: 1} are what they are in YAML, and what else there is is text as it stands,
// also numbers that would not be printed as they were typed. Other values are
// texts. Setting the manifest clears its digest, and those of what it includes; setting the
// steps those of what verifies them.
//
// It fails with a *yamlfile.Error that holds all problems, each at its key.
func (d *Definition) Set(assignments []string, query func(string) error) (*Definition, error) {
	e := editor{
		parser:   newParser(*d, func(text string) error { return unplaced(query(text)) }),
		assigned: map[string]string{},
	}
	e.definition.Task.Vars = maps.Clone(d.Task.Vars)
	for _, a := range assignments {
		e.assign(a)
	}
	e.check(d)
	if len(e.problems) > 0 {
		return nil, &yamlfile.Error{Problems: e.problems}
	}
	return &e.definition, nil
}

// unplaced lets an error say itself where in a query it is: there is no file.
func unplaced(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}

type editor struct {
	*parser
	assigned map[string]string // values, by key
	problems []yamlfile.Problem
}

// fail reports a problem of a key; "" is about none, or all.
func (e *editor) fail(key string, p yamlfile.Problem) {
	p.Position = yamlfile.Position{File: strings.TrimSpace("--set " + key)}
	e.problems = append(e.problems, p)
}

func (e *editor) assign(text string) {
	if !utf8.ValidString(text) {
		e.fail("", yamlfile.Problem{Message: fmt.Sprintf("%.60q is not valid UTF-8", text)})
		return
	}
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		e.fail("", yamlfile.Problem{Message: fmt.Sprintf("%.60q is not KEY=VALUE, as in task.vars.image=log-daemon:2", text)})
		return
	}
	name, isVariable := strings.CutPrefix(key, varsPrefix)
	if !isVariable && !slices.Contains(settable(), key) {
		e.fail("", e.unknown(key))
		return
	}
	if problem := variableProblem(name); isVariable && problem != "" {
		e.fail("", yamlfile.Problem{Path: strings.TrimSuffix(varsPrefix, "."), Message: problem})
		return
	}
	if _, twice := e.assigned[key]; twice {
		e.fail(key, yamlfile.Problem{Message: "is set twice"})
		return
	}
	e.assigned[key] = value
	if isVariable {
		e.variable(key, name, value)
		return
	}
	text = strconv.QuoteToASCII(value) // quoted, every text is a text of YAML, too
	if key == "deployment.steps" {
		text = value
	}
	err := yamlfile.Read("", []byte(text), "a list of steps, or [] for none", func(n *yamlfile.Node) { e.setting(key, n) })
	e.failAll(key, err)
	switch key {
	case "task.manifest":
		e.definition.Task.Digest, e.definition.Task.Includes = "", nil
	case "deployment.steps":
		e.definition.Deployment.VerifyFiles = nil
	}
}

func (e *editor) failAll(key string, err error) {
	var invalid *yamlfile.Error
	if !errors.As(err, &invalid) {
		return
	}
	e.bad[key] = true
	for _, p := range invalid.Problems {
		e.fail(key, p)
	}
}

func (e *editor) variable(key, name, text string) {
	value, err := typed(text)
	if err != nil {
		e.failAll(key, err)
		return
	}
	if e.definition.Task.Vars == nil {
		e.definition.Task.Vars = map[string]any{}
	}
	e.definition.Task.Vars[name] = value
}

// settable are the keys that can be set; NAME is that of a variable.
func settable() (keys []string) {
	for _, s := range settings {
		switch s {
		case "name", "type", "allow":
		case "task.vars":
			keys = append(keys, varsPrefix+"NAME")
		default:
			keys = append(keys, s)
		}
	}
	return keys
}

// unknown is the problem of a key that cannot be set.
func (e *editor) unknown(key string) yamlfile.Problem {
	switch key {
	case "name", "type":
		return yamlfile.Problem{Message: "the " + key + " of an environment cannot be changed"}
	case "allow":
		return yamlfile.Problem{Message: "what is allowed is not set: change it in the file of the definition, and make the revision of that with -f"}
	case "task.vars":
		return yamlfile.Problem{Message: "variables are set one by one: " + varsPrefix + "NAME=VALUE"}
	}
	keys := settable()
	likely := slices.Clone(keys)
	for name := range e.definition.Task.Vars {
		likely = append(likely, varsPrefix+name)
	}
	p := yamlfile.Problem{Message: fmt.Sprintf("there is no setting %.60q", key)}
	if i := slices.IndexFunc(likely, func(k string) bool { return strings.HasSuffix(k, "."+key) }); i >= 0 {
		p.Hint = likely[i]
	} else if p.Hint = suggest.Closest(key, likely); p.Hint == "" {
		p.Message += "; possible are " + strings.Join(keys, ", ")
	}
	return p
}

// check looks at what is made of the definition.
func (e *editor) check(before *Definition) {
	e.checkPairs()
	c := e.definition.Deployment
	_, percent := e.assigned["deployment.min_healthy_percent"]
	if c.Method == Replace && before.Deployment.Method == Surge && c.MinHealthyPercent == 100 && c.MaxUnavailable == nil && !percent {
		e.fail("deployment.method", yamlfile.Problem{Message: percentMissing})
	}
	for _, f := range c.flaws() {
		if slices.ContainsFunc(f.about, func(key string) bool { return e.bad[key] }) {
			continue
		}
		at := f.about[0]
		for _, key := range f.about {
			if _, ok := e.assigned[key]; ok {
				at = key
				break
			}
		}
		e.fail(at, yamlfile.Problem{Message: f.problem})
	}
	stored, err := e.definition.stored()
	if err != nil {
		largest := ""
		for key, value := range e.assigned {
			if n := len(value) - len(e.assigned[largest]); n > 0 || n == 0 && key < largest {
				largest = key
			}
		}
		e.fail(largest, yamlfile.Problem{Message: err.Error()})
		return
	}
	e.definition = stored
}

// checkPairs refuses both of two settings that say the same. The one that is set takes the
// place of the other one that the definition had.
func (e *editor) checkPairs() {
	for _, pair := range pairs {
		_, old := e.assigned[pair[0]]
		_, other := e.assigned[pair[1]]
		switch {
		case old && other:
			e.fail(pair[1], yamlfile.Problem{Message: bothGiven(pair)})
		case old && pair[0] == "deployment.max_over":
			e.definition.Deployment.MaxSurge = nil
		case old:
			e.definition.Deployment.MaxUnavailable = nil
		}
	}
}

// typed turns what was typed into the value of a variable; see Set. The error is
// a *yamlfile.Error, of a list or mapping only: all else is text.
func typed(text string) (value any, err error) {
	trimmed := strings.TrimSpace(text)
	if trimmed == "null" || trimmed == "~" {
		return nil, nil
	}
	collection := strings.HasPrefix(trimmed, "[") || strings.HasPrefix(trimmed, "{") && !strings.HasPrefix(trimmed, "{{")
	quoted := strings.HasPrefix(trimmed, "'") || strings.HasPrefix(trimmed, `"`)
	value = text
	err = yamlfile.Read("", []byte(text), "", func(n *yamlfile.Node) {
		v, ok := readValue(n)
		switch n.Kind {
		case yamlfile.Integer, yamlfile.Number:
			ok = ok && fmt.Sprint(v) == trimmed
		case yamlfile.Boolean:
			ok = ok && n.Value == trimmed
		case yamlfile.Text:
			ok = quoted
		default:
			ok = ok && collection
		}
		if ok {
			value = v
		}
	})
	if collection {
		return value, err
	}
	return value, nil
}
