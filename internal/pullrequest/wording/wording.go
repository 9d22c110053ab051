// Package wording fills in the templates of commit messages and titles of pull requests. They are
// in the expression language of manifests, and know a few names.
package wording

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/pattern"
)

// Names are those that templates know.
func Names() []string {
	return []string{"revision", "pipeline", "stage", "environment", "file", "value"}
}

// evaluator knows no files.
var evaluator = sync.OnceValue(func() *expression.Evaluator {
	return expression.OverAll(func(string) (string, error) {
		return "", fmt.Errorf("a template includes no files here: %w", fs.ErrNotExist)
	})
})

var trailer = pattern.Lazy(`^[A-Za-z0-9-]+: .`)

// IsTrailer reports whether git takes a line at the end of a message for a trailer, KEY: VALUE.
func IsTrailer(line string) bool { return trailer().MatchString(line) }

// Check returns why a template can be used for nothing, whatever its values.
func Check(template string) error {
	refs, err := evaluator().Check(template)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if !ref.Optional && !slices.Contains(Names(), ref.Name) {
			return fmt.Errorf("there is no %s; it can use %s", ref.Name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// Fill fills in a template.
func Fill(template string, values map[string]string) (string, error) {
	vars := make(map[string]any, len(values))
	for name, value := range values {
		vars[name] = value
	}
	text, err := evaluator().Evaluate(template, vars)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(text), nil
}
