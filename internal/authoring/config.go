package authoring

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/schema"
)

func (c *checker) goodConfig(context.Context) (verdict, error) {
	if c.schema == nil {
		return skip("the type has no config_schema"), nil
	}
	var wrong []string
	for _, v := range c.schema.Validate(c.Config) {
		wrong = append(wrong, fmt.Sprintf("%s %s (rule %q)", at(v.Path), v.Message, v.Rule))
	}
	if len(wrong) > 0 {
		return fail("config_schema refuses it: %s; received the schema %s; correct it, or the configuration", strings.Join(wrong, "; "), received(c.init.ConfigSchema)), nil
	}
	return pass(""), nil
}

func at(path []string) string {
	if len(path) == 0 {
		return "the configuration"
	}
	return strings.Join(path, ".")
}

// strange is the name of a property that no type has.
const strange = "deployster_no_such_property"

// badConfig derives bad configurations from the good one and sees whether the
// schema refuses them. Which of them a type may accept is its own affair; that
// it takes anything is worth a warning, and so is a property that takes
// anything. A property that nobody has seen is a typing mistake, unless
// the schema says that it wants such properties.
func (c *checker) badConfig(context.Context) (verdict, error) {
	if c.schema == nil {
		return warn("there is no config_schema, so everything is accepted; add one"), nil
	}
	refuses := func(config map[string]any) bool { return len(c.schema.Validate(config)) > 0 }
	refused := 0
	refusesUnknown := refuses(with(c.Config, strange, true))
	if refusesUnknown {
		refused++
	}
	var anything []string
	for _, name := range slices.Sorted(maps.Keys(c.Config)) {
		if refusesAnother(refuses, c.Config, name) {
			refused++
		} else {
			anything = append(anything, name)
		}
		without := maps.Clone(c.Config)
		delete(without, name)
		if refuses(without) {
			refused++
		}
	}
	switch {
	case refused == 0:
		return warn("config_schema accepts everything: no configuration derived from the good one is refused, so mistakes are found late"), nil
	case !refusesUnknown && !c.wantsUnknown():
		return fail(`the property %q, which no type has, is accepted, and so is a misspelt one; received the schema %s; add "additionalProperties": false to it, or true where any property is meant`,
			strange, received(c.init.ConfigSchema)), nil
	case len(anything) > 0:
		return warn(`values of any kind are accepted for %s; describe it in config_schema ("type": …)`, list(anything)), nil
	}
	return pass("%d derived from the good one", refused), nil
}

func with(config map[string]any, name string, value any) map[string]any {
	changed := maps.Clone(config)
	changed[name] = value
	return changed
}

// refusesAnother reports whether values of other kinds are refused for a
// property: at least one must be, as none is of a kind of its own.
func refusesAnother(refuses func(map[string]any) bool, config map[string]any, name string) bool {
	for _, value := range []any{nil, true, "text", -1.5, []any{true}, map[string]any{strange: true}} {
		if refuses(with(config, name, value)) {
			return true
		}
	}
	return false
}

// wantsUnknown reports whether the schema says something about properties that it
// does not name, or says it in a way that cannot be seen at its top.
func (c *checker) wantsUnknown() bool {
	var top map[string]json.RawMessage
	if json.Unmarshal(c.init.ConfigSchema, &top) != nil {
		return false
	}
	for _, rule := range []string{
		"additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames",
		"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if",
	} {
		if _, ok := top[rule]; ok {
			return true
		}
	}
	return false
}

// mask hides the values that the schema marks secret: test data, but often
// real.
func (c *checker) mask(text string) string {
	if c.schema == nil || c.Config == nil {
		return text
	}
	var forms []string
	for _, path := range c.schema.Secrets(c.Config) {
		for _, secret := range texts(schema.Within(c.Config, path)) {
			encoded, _ := json.Marshal(secret) // text can be encoded
			forms = append(forms, secret, strings.Join(printable([]byte(secret)), ""), string(encoded[1:len(encoded)-1]))
		}
	}
	// Longer ones first: a secret may be part of another.
	slices.SortStableFunc(forms, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, "•••")
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// hide masks what a container wrote, before anything of it is cut off.
func (c *checker) hide(data []byte) []byte { return []byte(c.mask(string(data))) }

// texts returns all text within v that is long enough to be told from others.
func texts(v any) []string {
	const telling = 3
	var found []string
	switch t := v.(type) {
	case string:
		if len(t) >= telling {
			found = append(found, t)
		}
	case json.Number:
		found = append(found, texts(t.String())...)
	case []any:
		for _, item := range t {
			found = append(found, texts(item)...)
		}
	case map[string]any:
		for _, item := range t {
			found = append(found, texts(item)...)
		}
	}
	return found
}
