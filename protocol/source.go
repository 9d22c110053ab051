package protocol

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed *.go
var source embed.FS

// Source returns the files of this package, without its tests, by name: a type
// that is written in Go needs nothing else of Deployster, so it can bring them
// along where the module cannot be fetched.
func Source() (map[string][]byte, error) {
	entries, err := source.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("reading the source of the package: %w", err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "_test.go") || e.Name() == "source.go" {
			continue
		}
		if files[e.Name()], err = source.ReadFile(e.Name()); err != nil {
			return nil, fmt.Errorf("reading the source of the package: %w", err)
		}
	}
	return files, nil
}
