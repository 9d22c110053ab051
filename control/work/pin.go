package work

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/origin"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/declaration"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/schema"
)

// Pinning is how variables become what a revision carries.
type Pinning struct {
	Inputs  Inputs
	Texts   Texts
	Schemas map[string]*schema.Schema // of types, beside those that ship; all that another type is given is taken for secret
	Public  []string                  // variables that are no secrets, whatever reads them
}

// Pin lets a collection carry its variables: as they are written, and secret ones as a
// reference to their file with a salted hash. A variable is secret that something secret
// in a configuration reads, if only through another variable, that a manifest declares so, or
// whose file lies outside of the workspace. A --var cannot be read again, so a secret one is refused.
func (c *Collection) Pin(p Pinning) error {
	secret, err := c.secrets(p.Schemas)
	if err != nil {
		return err
	}
	v := revision.Variables{Variables: []revision.Variable{}}
	var problems []manifest.Problem
	for _, a := range c.Assignments {
		use, hidden := secret[a.Name]
		one, outside, err := p.Inputs.carry(a)
		hidden = (hidden || outside) && !slices.Contains(p.Public, a.Name)
		switch {
		case err != nil:
			problems = append(problems, manifest.Problem{Position: a.At, Path: a.Name, Message: "cannot be carried by a revision: " + err.Error()})
		case hidden && a.File == "":
			problems = append(problems, manifest.Problem{Position: use.at, Path: use.path, Message: fmt.Sprintf(
				"is secret and reads %s: a revision carries no secrets but refers to their files, so give it in a file, with --var-file, or say --allow-logged %s where it is no secret", cmp.Or(a.From, a.At.File), a.Name)})
		case hidden && !origin.Again(a.File):
			problems = append(problems, manifest.Problem{Position: a.At, Path: a.Name, Message: fmt.Sprintf(
				"is taken for secret: a revision carries no secrets but refers to their files, and %s is no regular file and could not be read again, so give it in a file, or say --allow-logged %s where it is no secret", a.File, a.Name)})
		case hidden:
			one.Value, one.YAML = nil, ""
			if v.Salt, one.Secret, err = p.Texts.hash(a); err != nil {
				return fmt.Errorf("variable %s: %w", a.Name, err)
			}
		}
		v.Variables = append(v.Variables, one)
	}
	if len(problems) > 0 {
		return &InputError{&manifest.Error{Problems: problems}}
	}
	text, err := v.Encode()
	if err != nil {
		return fmt.Errorf("variables: %w", err)
	}
	c.Files[revision.VariablesName] = text
	return nil
}

// hash is the salted hash of the value of a variable, with the name of the salt.
func (t Texts) hash(a vars.Assignment) (salt, hash string, err error) {
	key, err := t.objects.MakeSalt()
	if err != nil {
		return "", "", objects.Remedied(err)
	}
	hash, err = revision.Hash(key, a.Name, a.Value, a.Written())
	return objects.Hash(key), hash, err
}

// Key is the key of hashes of what is secret, which all who have the log have, and which is not in the log.
func (t Texts) Key() ([]byte, error) { return t.objects.MakeSalt() }

// secretUse is the first part of a configuration that makes a variable a secret one.
type secretUse struct {
	path string // such as resources.db.config.env.PASSWORD
	at   manifest.Position
}

// secrets are the variables that something secret may read, if only through another
// variable.
func (c *Collection) secrets(schemas map[string]*schema.Schema) (map[string]secretUse, error) {
	secret := map[string]secretUse{}
	values := c.Assignments
	declared, err := c.declared()
	if err != nil {
		return nil, err
	}
	for _, d := range declared {
		given := func(a vars.Assignment) bool { return a.Name == d.Name && d.MayBeSecret(a.Value) }
		if d.Secret || slices.ContainsFunc(c.Assignments, given) {
			secret[d.Name] = secretUse{"variables." + d.Name, d.Position}
		}
		written, _ := d.Default()
		values = append(values[:len(values):len(values)], vars.Assignment{Name: d.Name, Value: written})
	}
	note := func(written any, use secretUse) {
		reads := c.readBy(written)
		for _, a := range values {
			if _, known := secret[a.Name]; !known && reads(a.Name) {
				secret[a.Name] = use
			}
		}
	}
	if err := c.secretParts(schemas, note); err != nil {
		return nil, err
	}
	for more := true; more; {
		before := len(secret)
		for _, a := range values {
			if use, is := secret[a.Name]; is {
				note(a.Value, use)
			}
		}
		more = len(secret) > before
	}
	return secret, nil
}

// declared are the variables that the manifests declare, each for itself.
func (c *Collection) declared() (all []*declaration.Variable, err error) {
	for _, source := range c.manifests {
		some, err := manifest.Declarations([]manifest.Source{source})
		if err != nil {
			return nil, &InputError{err}
		}
		all = append(all, some...)
	}
	return all, nil
}

// secretParts calls part with what is written in secret parts of configurations.
func (c *Collection) secretParts(schemas map[string]*schema.Schema, part func(written any, use secretUse)) error {
	for _, source := range c.manifests {
		m, err := manifest.Outline(source, c.evaluator)
		if err != nil {
			return &InputError{err}
		}
		for _, given := range m.Secret {
			part(given.Written, secretUse{given.Path, given.Position})
		}
		for _, r := range m.Resources {
			s, err := schemaOf(r.Type, schemas)
			if err != nil {
				return err
			}
			paths := [][]string{{}}
			if s != nil {
				paths = s.PossibleSecrets(r.Config, expression.IsTemplate)
			}
			for _, path := range paths {
				part(r.Made(c.evaluator, path...), secretUse{r.Path(path...), r.At(path...)})
			}
		}
	}
	return nil
}

// SecretUses lists which secret parts of configurations may read variables of these names,
// which the collection does not carry. All that a type is given that does not ship is taken
// for secret.
func (c *Collection) SecretUses(names ...string) (uses []runner.SecretUse, err error) {
	files := slices.Collect(maps.Keys(c.Files))
	declared, err := c.declared()
	for _, d := range declared {
		if d.Secret && slices.Contains(names, d.Name) {
			uses = append(uses, runner.SecretUse{Variable: d.Name, Path: "variables." + d.Name, Position: d.Position})
		}
	}
	if err != nil {
		return nil, err
	}
	err = c.secretParts(nil, func(written any, use secretUse) {
		read, all, err := c.evaluator.Names(written, files)
		for _, name := range names {
			if all || err != nil || read[name] {
				uses = append(uses, runner.SecretUse{Variable: name, Path: use.path, Position: use.at})
			}
		}
	})
	slices.SortStableFunc(uses, func(a, b runner.SecretUse) int {
		return cmp.Or(strings.Compare(a.Position.File, b.Position.File), cmp.Compare(a.Position.Line, b.Position.Line), cmp.Compare(a.Position.Column, b.Position.Column))
	})
	return uses, err
}

// readBy reports which variables something may read.
func (c *Collection) readBy(written any) func(name string) bool {
	names, all, err := c.evaluator.Names(written, slices.Collect(maps.Keys(c.Files)))
	return func(name string) bool { return all || err != nil || names[name] }
}

// schemaOf is what a type says of its configurations; nil of one that is not known.
func schemaOf(typ string, known map[string]*schema.Schema) (*schema.Schema, error) {
	if s := known[typ]; s != nil {
		return s, nil
	}
	if !ships(typ) {
		return nil, nil
	}
	t, _ := shipped.Lookup(strings.TrimPrefix(typ, shipped.Prefix))
	s, err := schema.CompileConfig(t.Schema)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", typ, err)
	}
	return s, nil
}
