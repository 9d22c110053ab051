package vars

import (
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/manifest"
)

// WithoutText is why a file of secrets cannot be read, without anything that stands in it: a
// file that is half edited must not get parts of a secret into the log. What is wrong with
// its text has a line, what is wrong with the file itself has none.
func WithoutText(err error, path string) string {
	var found *manifest.Error
	if !errors.As(err, &found) || len(found.Problems) == 0 {
		return path
	}
	if first := found.Problems[0]; first.Line > 0 {
		return fmt.Sprintf("%s:%d: this is no YAML of variables (what stands there is not shown)", path, first.Line)
	}
	return err.Error()
}
