package manifest

import (
	"maps"

	"github.com/deployster-go/deployster/manifest/declaration"
	"github.com/deployster-go/deployster/schema"
)

// Fit returns a configuration in which numbers and truth values are texts where the type wants a text, if an expression
// came to them from variables whose type nobody declares: a revision such as 5176135 looks like a number. What the
// expression itself makes a number stays one, and so does what is written in the manifest. broken finds what is wrong.
func (r *Resource) Fit(config map[string]any, s Scope, broken func(map[string]any) []schema.Violation) map[string]any {
	if len(r.texts) == 0 {
		return config
	}
	return declaration.FitAll(config, broken, func(path []string) any { return r.asText(path, s) })
}

// asText is what the expression behind a part of the configuration comes to over texts; nil where it comes to nothing.
func (r *Resource) asText(path []string, s Scope) any {
	written, within := declaration.Around(r.Config, path)
	texts := newEvaluation(s)
	if texts.instead = maps.Clone(s.Variables); r.module != nil {
		texts.instead = maps.Clone(r.module.variables)
	}
	maps.Copy(texts.instead, r.texts)
	each := r.Each
	if each != nil && declaration.Scalar(each.Value) {
		if all, err := texts.evaluate(r.module, r.ForEach, nil, r.aliases()); err == nil {
			each = each.among(all)
		}
	}
	value, err := texts.evaluate(r.module, written, each, r.aliases())
	if err != nil { // as of a sum of texts: it is meant to be a number
		return nil
	}
	return schema.Within(value, within)
}

// among is the instance among those that its for_each comes to.
func (e *Each) among(all any) *Each {
	if byKey, ok := all.(map[string]any); ok {
		return &Each{e.Key, byKey[e.Key]}
	}
	return &Each{e.Key, e.Key} // the texts and numbers of a list are keys
}
