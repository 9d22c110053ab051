package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/deployster-go/deployster/internal/phrase"
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
	// secret are the schemas that are marked writeOnly in a draft before 07, of
	// which the library does not know the word.
	secret map[*jsonschema.Schema]bool
	// constants are the values that the schema compares with, of which at most
	// maxConstants are kept.
	constants []any
}

// CompileConfig compiles the config_schema of a resource type. The draft is the
// one that $schema names. Without $schema it is the newest of 2020-12, 2019-09, 07
// and 04 in which the schema is valid and none of its keywords is ignored.
func CompileConfig(raw json.RawMessage) (*Schema, error) {
	if len(raw) > maxSource {
		return nil, fmt.Errorf("the schema has %d bytes, at most %d are possible", len(raw), maxSource)
	}
	if Depth(raw) > maxDepth {
		return nil, fmt.Errorf("the schema is nested deeper than %d levels", maxDepth)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("the schema is not one JSON document: %w", err)
	}
	object, ok := doc.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the schema must be an object, not %s", phrase.Kind(doc))
	}
	named, ok, err := draftOf(object)
	if err != nil {
		return nil, err
	}
	patterns := NewPatterns(maxPatterns)
	defer patterns.seal()
	if ok {
		return compile(object, named, patterns)
	}
	delete(object, "$schema") // the latest one, of whenever it was written
	return compileUnnamed(object, patterns)
}

// compileUnnamed compiles a schema that does not name its draft. When it is
// valid in none, what is wrong with it in the newest is reported.
func compileUnnamed(doc map[string]any, patterns *Patterns) (*Schema, error) {
	var first error
	for _, as := range assumed() {
		s, err := compile(doc, as, patterns)
		if first == nil && err != nil {
			first = err
		}
		if patterns.refused != nil {
			break
		}
		if err != nil {
			continue
		}
		ignored := s.ignored(doc, as.later())
		if len(ignored) == 0 {
			return s, nil
		}
		first = fmt.Errorf("%w; it is valid in %s, where %s would be ignored: name the draft that is meant with $schema", first, as.name, quoted(ignored))
		break
	}
	return nil, first
}

func compile(doc map[string]any, as draft, patterns *Patterns) (s *Schema, err error) {
	if err := inspect(doc, as); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("the schema cannot be compiled: %v", r)
		}
	}()
	if as.lib != jsonschema.Draft4 {
		doc = withNumbers(doc)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(as.lib)
	c.UseLoader(nowhere{})
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) { return patterns.compile(text) })
	var root *jsonschema.Schema
	if err = c.AddResource(origin+"schema", doc); err == nil {
		root, err = c.Compile(origin + "schema")
	}
	switch {
	case patterns.refused != nil:
		return nil, located(doc, patterns.refused) // whatever the library made of it
	case err != nil:
		return nil, explain(err, doc)
	}
	s = &Schema{root: root, anchored: map[string][]*jsonschema.Schema{}, secret: map[*jsonschema.Schema]bool{}}
	s.explore(doc)
	return s, nil
}

// explore finds the anchored schemas and those whose secrecy the library does
// not know.
func (s *Schema) explore(doc map[string]any) {
	for sch := range s.reachable() {
		if sch.DynamicAnchor != "" {
			s.anchored[sch.DynamicAnchor] = append(s.anchored[sch.DynamicAnchor], sch)
		}
		if sch.RecursiveAnchor {
			s.anchored[""] = append(s.anchored[""], sch)
		}
		if sch.DraftVersion < 7 && source(doc, sch)["writeOnly"] == true {
			s.secret[sch] = true
		}
		if sch.Const != nil {
			s.constants = append(s.constants, *sch.Const)
		}
		if sch.Enum != nil {
			s.constants = append(s.constants, sch.Enum.Values...)
		}
		s.constants = s.constants[:min(len(s.constants), maxConstants)]
	}
}

// ignored returns which of some keywords stand in the schema, sorted.
func (s *Schema) ignored(doc map[string]any, keywords []string) []string {
	found := map[string]bool{}
	for sch := range s.reachable() {
		members := source(doc, sch)
		for _, keyword := range keywords {
			if _, there := members[keyword]; there {
				found[keyword] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// reachable are the schema and all that it is made of or refers to.
func (s *Schema) reachable() iter.Seq[*jsonschema.Schema] {
	return func(yield func(*jsonschema.Schema) bool) {
		seen := map[*jsonschema.Schema]bool{s.root: true}
		queue := []*jsonschema.Schema{s.root}
		for len(queue) > 0 {
			sch := queue[len(queue)-1]
			queue = queue[:len(queue)-1]
			if !yield(sch) {
				return
			}
			for _, next := range parts(sch) {
				if !seen[next] {
					seen[next] = true
					queue = append(queue, next)
				}
			}
		}
	}
}

// source returns the members of a schema as they are written; none when it is
// not of this document.
func source(doc map[string]any, sch *jsonschema.Schema) map[string]any {
	fragment, ours := strings.CutPrefix(sch.Location, origin+"schema#")
	pointer, err := url.PathUnescape(fragment)
	if !ours || err != nil {
		return nil
	}
	path := strings.Split(pointer, "/")[1:]
	for i, token := range path {
		path[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	members, _ := Within(doc, path).(map[string]any)
	return members
}

// Within returns what stands at a path of keys and indexes within a value, nil where
// nothing does.
func Within(v any, path []string) any {
	for _, key := range path {
		switch whole := v.(type) {
		case map[string]any:
			v = whole[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(whole) {
				return nil
			}
			v = whole[i]
		default:
			return nil
		}
	}
	return v
}

// nowhere refuses to load anything: a schema can only refer to itself and to
// the drafts, which the library brings along.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("a reference to %q: only references within the schema (#/$defs/…) are possible", strings.TrimPrefix(url, origin))
}
