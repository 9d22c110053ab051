// Package authoring helps those who write resource types.
//
// New writes a small type that works, as a start. Check holds the image of a
// type against the protocol: it plays Deployster's part of the conversation
// and judges each answer, so that an author learns in a test what users would
// learn in a deployment.
package authoring

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/protocol"
)

//go:embed all:templates
var templates embed.FS

const templateSuffix = ".tmpl"

// language is what differs between the types that New writes.
type language struct {
	name   string
	source string // the file an author changes
	build  string // what the README says about building
}

var languages = []language{
	{"go", "main.go", buildGo},
	{"python", "type.py", "Only Python's standard library is needed."},
	{"sh", "type.sh", "The image has a POSIX shell and jq, and nothing else is needed."},
}

// buildGo is what the README of a type in Go says about building.
const buildGo = `The Dockerfile builds a static binary, and fetches nothing: the package protocol,
which is all that the type needs of Deployster, is in the directory ` + "`vendor`" + `. To
build without Docker:

    CGO_ENABLED=0 go build -trimpath -o type .

To use other modules too, tell Go where the source of Deployster is, for example a
checkout beside this directory; ` + "`go mod vendor`" + ` then puts all that is needed into
` + "`vendor`" + `:

    go mod edit -replace=github.com/deployster-go/deployster=../deployster
    go mod tidy
    go mod vendor`

// vendored is where a type in Go finds the package protocol.
const vendored = "vendor/github.com/deployster-go/deployster/protocol"

// vendor adds what a type in Go is built with, so that nothing need be fetched.
func vendor(contents map[string]string) error {
	source, err := protocol.Source()
	if err != nil {
		return err
	}
	for name, text := range source {
		contents[vendored+"/"+name] = string(text)
	}
	contents["vendor/modules.txt"] = "# github.com/deployster-go/deployster v0.0.0\n## explicit; go 1.26\ngithub.com/deployster-go/deployster/protocol\n"
	return nil
}

// Languages are the languages that New knows.
func Languages() []string {
	var names []string
	for _, l := range languages {
		names = append(names, l.name)
	}
	return names
}

var validName = pattern.Lazy(`^[a-z][a-z0-9-]*$`)

// New writes a resource type called name into the directory dir, which is made
// when it is not there, and returns the paths of the files, sorted. It
// overwrites nothing, and when it fails it leaves nothing behind.
func New(dir, name, lang string) (files []string, err error) {
	if !validName().MatchString(name) {
		return nil, fmt.Errorf("the name of a resource type must match %s, %q does not", validName(), name)
	}
	i := slices.IndexFunc(languages, func(l language) bool { return l.name == lang })
	if i < 0 {
		return nil, fmt.Errorf("there is no template in %q; there are %s", lang, strings.Join(Languages(), ", "))
	}
	contents, err := render(name, languages[i])
	if err != nil {
		return nil, err
	}
	if err := writeAll(filepath.Clean(dir), contents); err != nil {
		return nil, fmt.Errorf("writing the resource type %s: %w", name, err)
	}
	for _, entry := range entries(contents) {
		files = append(files, filepath.Join(dir, entry))
	}
	return files, nil
}

// entries are the files, and of those in directories the directories, sorted.
func entries(contents map[string]string) []string {
	var names []string
	for file := range contents {
		name, _, _ := strings.Cut(file, "/")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// render fills in the templates that all languages share and those of one.
func render(name string, l language) (map[string]string, error) {
	fill := strings.NewReplacer("@NAME@", name, "@BUILD@", l.build, "@SOURCE@", l.source)
	contents := map[string]string{}
	for _, dir := range []string{"templates", "templates/" + l.name} {
		entries, err := templates.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("reading the templates: %w", err)
		}
		for _, e := range entries {
			file, ok := strings.CutSuffix(e.Name(), templateSuffix)
			if !ok {
				continue
			}
			text, err := templates.ReadFile(dir + "/" + e.Name())
			if err != nil {
				return nil, fmt.Errorf("reading the templates: %w", err)
			}
			contents[file] = fill.Replace(string(text))
		}
	}
	if l.name == "go" {
		if err := vendor(contents); err != nil {
			return nil, err
		}
	}
	return contents, nil
}

// writeAll writes the files aside and moves them into place when all are
// written: a new directory as a whole, else each file.
func writeAll(dir string, contents map[string]string) (err error) {
	info, err := os.Stat(dir)
	fresh := errors.Is(err, fs.ErrNotExist)
	switch {
	case fresh:
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory; name another", dir)
	}
	for _, entry := range entries(contents) {
		if _, err := os.Lstat(filepath.Join(dir, entry)); err == nil {
			return fmt.Errorf("%s exists and is not overwritten; name another directory", filepath.Join(dir, entry))
		}
	}
	beside := dir
	if fresh {
		beside = filepath.Dir(dir)
		if err := os.MkdirAll(beside, 0o750); err != nil {
			return err
		}
	}
	aside, err := os.MkdirTemp(beside, ".new-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(aside)) }()
	for file, content := range contents {
		place := filepath.Join(aside, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil { //nolint:gosec // source code is for everybody to read
			return err
		}
		if err := os.WriteFile(place, []byte(content), fileMode(file)); err != nil {
			return err
		}
	}
	if fresh {
		if err := os.Chmod(aside, 0o755); err != nil { //nolint:gosec // source code is for everybody to read
			return err
		}
		return os.Rename(aside, dir)
	}
	var moved []string
	for _, entry := range entries(contents) {
		place := filepath.Join(dir, entry)
		if err := os.Rename(filepath.Join(aside, entry), place); err != nil {
			for _, place := range moved {
				err = errors.Join(err, os.RemoveAll(place))
			}
			return err
		}
		moved = append(moved, place)
	}
	return nil
}

// fileMode lets scripts be run as they are.
func fileMode(file string) fs.FileMode {
	switch filepath.Ext(file) {
	case ".py", ".sh":
		return 0o755
	}
	return 0o644
}
