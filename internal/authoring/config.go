package authoring

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

func (c *checker) goodConfig(context.Context) (verdict, error) {
	if c.schema == nil {
		return skip("the type has no config_schema"), nil
	}
	var wrong []string
	for _, v := range c.schema.Validate(c.Config) {
		wrong = append(wrong, fmt.Sprintf("%s %s (rule %q)", at(v.Path), v.Message, v.Rule))
	}
	if c.Second != nil {
		for _, v := range c.schema.Validate(c.Second) {
			wrong = append(wrong, fmt.Sprintf("of the second one, %s %s (rule %q)", at(v.Path), v.Message, v.Rule))
		}
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
