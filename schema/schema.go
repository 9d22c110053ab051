// Package schema knows the forms that Deployster's files and messages have, as
// JSON Schemas, and holds values against a schema.
//
// Two kinds of schemas meet here. Those of Deployster itself are embedded;
// Names and Source give them to editors, authors and tests. The other kind is
// the config_schema that a resource type answers: CompileConfig takes it, and
// since whoever made the image wrote it, it is bounded in every way: it can
// refer to nothing outside itself, it has a size, and checking a value against
// it takes a bounded number of steps.
package schema

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/suggest"
)

//go:embed *.schema.json
var files embed.FS

const suffix = ".schema.json"

// Names returns the names of the embedded schemas, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil // an embedded directory can be read
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), suffix))
	}
	slices.Sort(names)
	return names
}

// Source returns the text of an embedded schema (JSON Schema, draft 2020-12).
func Source(name string) ([]byte, error) {
	text, err := files.ReadFile(name + suffix)
	if err == nil {
		return text, nil
	}
	if near := suggest.Closest(name, Names()); near != "" {
		return nil, fmt.Errorf("there is no schema %q, did you mean %q?", name, near)
	}
	return nil, fmt.Errorf("there is no schema %q; there are %s", name, strings.Join(Names(), ", "))
}
