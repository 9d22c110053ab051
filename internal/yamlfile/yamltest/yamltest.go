// Package yamltest tests readers of YAML files, all in the same way: each wrong
// file is answered with its problems, whatever a fuzzer writes is answered with
// problems that can be shown, and the published schema accepts what the reader
// accepts.
package yamltest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/internal/yamlfile"
)

const (
	cases   = "testdata/problems/*.txt"
	divider = "-- problems --\n"
	another = "-- file --\n"
)

// given returns the files of a case: those behind lines "-- file --", or else
// all of it.
func given(text string) []string {
	if parts := strings.Split(text, another); len(parts) > 1 {
		return parts[1:]
	}
	return []string{text}
}

// Problems tests that read says of each case of testdata/problems what stands
// there after "-- problems --". UPDATE=1 writes that anew. A line that ends in …
// stands for any that begins like it: what exactly is wrong with an expression is
// not for the reader of a file to say.
func Problems(t *testing.T, read func(files ...string) error) {
	t.Helper()
	paths, err := filepath.Glob(cases)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text, want, _ := strings.Cut(string(data), divider)
			err = read(given(text)...)
			var invalid *yamlfile.Error
			if !errors.As(err, &invalid) {
				t.Fatalf("nothing was found wrong: %v", err)
			}
			got := err.Error() + "\n"
			if slices.EqualFunc(strings.Split(got, "\n"), strings.Split(want, "\n"), agree) {
				return
			}
			if os.Getenv("UPDATE") == "" {
				t.Fatalf("got\n%swant\n%s", got, want)
			}
			if err := os.WriteFile(path, []byte(text+divider+got), 0o600); err != nil { //nolint:gosec // the path is that of a case of this test
				t.Fatal(err)
			}
		})
	}
}

func agree(got, want string) bool {
	begin, open := strings.CutSuffix(want, "…")
	return got == want || open && strings.HasPrefix(got, begin)
}

// Seed gives a fuzzer the files of all cases.
func Seed(f *testing.F) {
	f.Helper()
	paths, err := filepath.Glob(cases)
	if err != nil || len(paths) == 0 {
		f.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		text, _, _ := strings.Cut(string(data), divider)
		for _, file := range given(text) {
			f.Add(file)
		}
	}
}

// Lines is how many lines a file has, as YAML understands lines.
func Lines(file string) int {
	lines := 1
	for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
		lines += strings.Count(file, end)
	}
	return lines
}

// Showable tests that the error about a file of so many lines consists of
// problems, each of which fits into one line and is in the file.
func Showable(t *testing.T, err error, lines int) {
	t.Helper()
	var invalid *yamlfile.Error
	if !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
		t.Fatalf("an error without problems: %v", err)
	}
	for _, p := range invalid.Problems {
		if p.Message == "" || strings.Contains(p.String(), "\n") || p.Line > lines {
			t.Fatalf("a problem that cannot be shown: %q", p.String())
		}
	}
}

// Schema tests that a schema and read accept the same files: those that are true.
func Schema(t *testing.T, schema []byte, files map[string]bool, read func(file string) error) {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("urn:it", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("urn:it")
	if err != nil {
		t.Fatal(err)
	}
	for file, good := range files {
		if err := read(file); (err == nil) != good {
			t.Errorf("%s\nreader: %v", file, err)
		}
		var value any
		if err := yaml.Unmarshal([]byte(file), &value); err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(withoutTimes(value)); (err == nil) != good {
			t.Errorf("%s\nschema: %v", file, err)
		}
	}
}

// withoutTimes makes texts of times, as readers do.
func withoutTimes(value any) any {
	switch v := value.(type) {
	case time.Time:
		return v.String()
	case []any:
		for i := range v {
			v[i] = withoutTimes(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = withoutTimes(v[key])
		}
	}
	return value
}
