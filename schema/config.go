package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The bounds of a config_schema. They are far above what describes a
// configuration.
const (
	maxSource     = 1 << 20 // bytes
	maxDepth      = 100     // objects and lists within each other
	maxSubschemas = 10_000
	maxNumber     = 40 // characters of a number
)

// origin is where a config_schema is said to come from. Relative references
// resolve below it, where nothing can be loaded.
const origin = "deployster:///"

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	root *jsonschema.Schema
	// anchored are the schemas that a dynamic reference may lead to, by anchor;
	// those of $recursiveAnchor are under "".
	anchored map[string][]*jsonschema.Schema
}

// CompileConfig compiles the config_schema of a resource type. Drafts 2020-12
// (the default), 2019-09 and 07 are understood.
func CompileConfig(raw json.RawMessage) (*Schema, error) {
	if len(raw) > maxSource {
		return nil, fmt.Errorf("the schema has %d bytes, at most %d are possible", len(raw), maxSource)
	}
	if err := nesting(raw); err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("the schema is not one JSON document: %w", err)
	}
	object, ok := doc.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the schema must be an object, not %s", kindOf(doc))
	}
	if err := acceptable(object); err != nil {
		return nil, err
	}
	return compile(object)
}

func compile(doc any) (s *Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("the schema can not be compiled: %v", r)
		}
	}()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nowhere{})
	if err := c.AddResource(origin+"schema", doc); err != nil {
		return nil, explain(err)
	}
	root, err := c.Compile(origin + "schema")
	if err != nil {
		return nil, explain(err)
	}
	s = &Schema{root: root, anchored: map[string][]*jsonschema.Schema{}}
	if n := s.explore(root); n > maxSubschemas {
		return nil, fmt.Errorf("the schema has %d parts, at most %d are possible", n, maxSubschemas)
	}
	return s, nil
}

// explore finds the anchored schemas and counts all that can be reached.
func (s *Schema) explore(root *jsonschema.Schema) int {
	seen := map[*jsonschema.Schema]bool{root: true}
	queue := []*jsonschema.Schema{root}
	for len(queue) > 0 {
		sch := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if sch.DynamicAnchor != "" {
			s.anchored[sch.DynamicAnchor] = append(s.anchored[sch.DynamicAnchor], sch)
		}
		if sch.RecursiveAnchor {
			s.anchored[""] = append(s.anchored[""], sch)
		}
		for _, next := range parts(sch) {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return len(seen)
}

// nowhere refuses to load anything: a schema can only refer to itself and to
// the drafts, which the library brings along.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("a reference to %q: only references within the schema (#/$defs/…) are possible", strings.TrimPrefix(url, origin))
}

// nesting refuses what is nested too deeply, before anything recursive reads
// it.
func nesting(raw []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("the schema is nested deeper than %d levels", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

var drafts = []string{
	"https://json-schema.org/draft/2020-12/schema",
	"https://json-schema.org/draft/2019-09/schema",
	"http://json-schema.org/draft-07/schema",
}

// acceptable refuses what would be compiled, but not in the sense in which it
// was meant.
func acceptable(doc map[string]any) error {
	old := false
	if draft, there := doc["$schema"]; there {
		text, _ := draft.(string)
		text = strings.TrimSuffix(text, "#")
		switch text {
		case drafts[0], drafts[1]:
		case drafts[2]:
			old = true
		default:
			return fmt.Errorf("$schema is %v; possible are %s", draft, strings.Join(drafts, ", "))
		}
	}
	return inspect(doc, old, true)
}

func inspect(v any, old, top bool) error {
	switch v := v.(type) {
	case map[string]any:
		_, ref := v["$ref"].(string)
		_, secret := v["writeOnly"].(bool)
		if _, nested := v["$schema"].(string); nested && !top {
			return errors.New("$schema is only possible at the top of the schema")
		}
		if old && ref && secret {
			return errors.New("writeOnly beside $ref is ignored in draft 07, so the secret would be shown; put the $ref into an allOf or use draft 2020-12")
		}
		for _, item := range v {
			if err := inspect(item, old, false); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := inspect(item, old, false); err != nil {
				return err
			}
		}
	case json.Number:
		// An exponent is a small text that makes a huge number.
		f, err := v.Float64()
		if err != nil || len(v) > maxNumber || f != 0 && (f < -1e100 || f > 1e100 || -1e-100 < f && f < 1e-100) {
			return fmt.Errorf("the number %.20s… is too long or too large", v.String())
		}
	}
	return nil
}

// explain turns the library's error about a schema into words for its author.
func explain(err error) error {
	var mismatch *jsonschema.SchemaValidationError
	var detail *jsonschema.ValidationError
	if errors.As(err, &mismatch) && errors.As(mismatch.Err, &detail) {
		const shown = 3
		var said []string
		for _, v := range violations(detail, nil) {
			if len(said) == shown {
				break
			}
			said = append(said, fmt.Sprintf("#/%s %s", strings.Join(v.Path, "/"), v.Message))
		}
		return fmt.Errorf("it is not a valid JSON Schema: %s", strings.Join(said, "; "))
	}
	var loading *jsonschema.LoadURLError
	if errors.As(err, &loading) {
		return loading.Err
	}
	var pattern *jsonschema.InvalidRegexError
	if errors.As(err, &pattern) {
		return fmt.Errorf("the pattern %q is not possible (patterns are those of RE2): %w", pattern.Regex, pattern.Err)
	}
	return errors.New(strings.ReplaceAll(err.Error(), origin+"schema", ""))
}
