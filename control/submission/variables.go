package submission

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/schema"
)

// variables are those that the values of a group read.
type variables struct {
	values      map[string]any
	expressions *expression.Evaluator
	files       []string          // that these may include
	tainted     map[string]string // variables that are secret, or read what is: the secret one, by name
	own         map[string]bool   // whether a text reads its package; of those that were looked at
	at          [][]origin        // where the expressions of the outline stand, by its lines
}

// origin is where an expression stands in the definition.
type origin struct {
	yamlfile.Position
	path string
}

// The expressions of a definition are collected as a manifest's are: each is a resource,
// of one type where it stands among secrets, and of another elsewhere.
const (
	outlineName = "/expressions"
	plainType   = "plain"
	secretType  = "secret"
	firstLine   = 2 // of the outline on which an expression stands
)

// readVariables reads the variables that values use. Expressions that are wrong are reported, and
// left out then; where something else is, none is evaluated.
func (e *evaluation) readVariables(packages, released []*definition.Package) error {
	for {
		err := e.collectVariables(packages, released)
		if err == nil {
			return nil
		}
		e.expressions = nil
		known := len(e.failed)
		if err := e.placed(err); err != nil || len(e.failed) == known {
			return err
		}
	}
}

// collectVariables collects the variables that the values of packages read, with all that these
// include, and evaluates them. Secret ones are carried by reference.
func (e *evaluation) collectVariables(packages, released []*definition.Package) error {
	outline, texts, err := e.outline(packages, released)
	if err != nil {
		return err
	}
	given, err := e.Inputs.Read(map[string]any{packageVariable: nil})
	if err != nil {
		return err
	}
	collected, err := work.Collect(e.Inputs.Workspace, nil, given, manifest.Source{Name: outlineName, Data: outline})
	if err != nil {
		return err
	}
	plain, err := schema.CompileConfig(json.RawMessage(`{"type": "object"}`))
	if err != nil {
		return err
	}
	err = collected.Pin(work.Pinning{Inputs: e.Inputs, Texts: e.Texts, Public: e.Public, Schemas: map[string]*schema.Schema{plainType: plain}})
	if err != nil {
		return err
	}
	e.out.Unread = collected.GivenUnread()
	delete(collected.Files, outlineName)
	e.out.Files = collected.Files
	in, err := e.Inputs.Evaluate(work.LoadOptions{Included: collected.Files.Files(), Assigned: append([]vars.Assignment{}, collected.Assignments...)})
	if err != nil {
		return err
	}
	e.values, e.expressions = in.Variables, in.Expressions
	e.files = slices.Collect(maps.Keys(collected.Files))
	e.own = map[string]bool{}
	if err := e.taint(collected); err != nil {
		return err
	}
	for _, text := range texts {
		e.refuseSecret(text)
	}
	return nil
}

// outline writes all expressions as the resources of a manifest, each on its line, and
// returns those that are not secrets.
func (e *evaluation) outline(packages, released []*definition.Package) (outline []byte, plain []written, err error) {
	lines := []string{"resources:"}
	e.at = nil
	seen, known := map[*definition.Job]bool{}, map[string]int{}
	add := func(pkg *definition.Package, key string, v definition.Value, secret bool) {
		typ := plainType
		if secret {
			typ = secretType
		}
		if !expression.IsTemplate(v.Text) || e.failed[v.At] {
			return
		}
		from := origin{v.At, e.pathOf(pkg, key)}
		if line, is := known[typ+v.Text]; is {
			e.at[line] = append(e.at[line], from)
			return
		}
		known[typ+v.Text] = len(e.at)
		quoted, failed := json.Marshal(v.Text)
		err = errors.Join(err, failed)
		lines = append(lines, fmt.Sprintf("  r%d: {type: %s, config: {value: %s}}", len(lines), typ, quoted))
		e.at = append(e.at, []origin{from})
		if !secret {
			plain = append(plain, written{pkg, key, v})
		}
	}
	for _, pkg := range packages {
		if seen[pkg.Job] {
			continue
		}
		seen[pkg.Job] = true
		values(pkg.Job, func(key string, v definition.Value, secret bool) { add(pkg, key, v, secret) })
	}
	for _, pkg := range released {
		if pkg.Have != nil {
			add(pkg, "released.path", pkg.Have.Path, false)
		}
	}
	if len(lines) == 1 {
		lines[0] += " {}"
	}
	return []byte(strings.Join(lines, "\n") + "\n"), plain, err
}

// written is a value where it stands in the definition.
type written struct {
	pkg *definition.Package
	key string
	definition.Value
}

// placed reports what is wrong with variables and expressions, with the outline where it is in
// the definition. Any other error it returns.
func (e *evaluation) placed(err error) error {
	var input *work.InputError
	var found *manifest.Error
	if !errors.As(err, &input) || !errors.As(input.Cause, &found) {
		return e.report(err)
	}
	for _, p := range found.Problems {
		at := p.Line - firstLine
		if p.File != outlineName || at < 0 || at >= len(e.at) {
			e.found.Add(p)
			continue
		}
		for _, from := range e.at[at] {
			e.failed[from.Position] = true
			p.Position, p.Path = from.Position, from.path
			e.found.Add(p)
		}
	}
	return nil
}

// taint finds the variables that are secret, and those that read such ones.
func (e *evaluation) taint(c *work.Collection) error {
	carried, err := revision.DecodeVariables(c.Files[revision.VariablesName])
	if err != nil {
		return err
	}
	e.tainted = map[string]string{}
	for _, v := range carried.Variables {
		if v.Secret != "" {
			e.tainted[v.Name] = v.Name
		}
	}
	for more := len(e.tainted) > 0; more; {
		more = false
		for _, a := range c.Assignments {
			if read := e.secretIn(a.Value); e.tainted[a.Name] == "" && read != "" {
				e.tainted[a.Name], more = e.tainted[read], true
			}
		}
	}
	return nil
}

// secretIn is a variable that something reads and that is secret, or reads what is; "" is
// that there is none.
func (e *evaluation) secretIn(value any) string {
	names, all, err := e.expressions.Names(value, e.files)
	if err != nil {
		return "" // that it cannot be evaluated is said elsewhere
	}
	for _, name := range slices.Sorted(maps.Keys(e.tainted)) {
		if all || names[name] {
			return name
		}
	}
	return ""
}

// refuseSecret refuses a value outside of secrets that would show one.
func (e *evaluation) refuseSecret(w written) {
	if len(e.tainted) == 0 {
		return
	}
	name := e.secretIn(w.Text)
	if name == "" {
		return
	}
	from, secret := "", e.tainted[name]
	if secret != name {
		from = ", which reads " + secret
	}
	e.problem(w.At, w.pkg, w.key, "reads %s%s, which is secret: it would be shown with the group; give it under secrets, or say --allow-logged %s where it is no secret", name, from, secret)
}

// readsPackage reports whether a text may read its package.
func (e *evaluation) readsPackage(text string) bool {
	if !expression.IsTemplate(text) || e.expressions == nil {
		return false
	}
	own, known := e.own[text]
	if !known {
		names, all, err := e.expressions.Names(text, e.files)
		own = err != nil || all || names[packageVariable]
		e.own[text] = own
	}
	return own
}
