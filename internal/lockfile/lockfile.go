// Package lockfile reads and writes deployster.lock: what the names of images and modules
// that manifests use meant when somebody looked, so that they mean the same at the next
// apply, on every machine. People review it, so it is sorted and says nothing that changes
// by itself.
package lockfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/internal/atomicfile"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/regularfile"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Name is the name of the file, which is in the workspace.
const Name = "deployster.lock"

// version is that of the file's form.
const version = 1

// The bounds of a file.
const (
	maxSize  = 1 << 20
	maxText  = 1000
	maxTypes = 1000
)

// Image is what an image's name means: of one that a registry has, its digest there, and of
// others the id of the content that the engine had.
type Image struct {
	Digest string   `yaml:"digest,omitempty"`
	ID     string   `yaml:"id,omitempty"`
	For    []string `yaml:"for,omitempty"` // types whose actions run it, sorted; none of a type itself
}

// Content is the digest, or else the id.
func (i Image) Content() string {
	if i.Digest != "" {
		return i.Digest
	}
	return i.ID
}

// Module is what a module's source means.
type Module struct {
	Commit string `yaml:"commit,omitempty"` // of a git repository
	Digest string `yaml:"digest"`           // of its files
}

// Content is the commit, or else the digest.
func (m Module) Content() string {
	if m.Commit != "" {
		return m.Commit
	}
	return m.Digest
}

// File is what the file says. The zero value locks nothing.
type File struct {
	Images  map[string]Image  `yaml:"images,omitempty"`  // by name, as manifests have it
	Modules map[string]Module `yaml:"modules,omitempty"` // by source, as manifests have it
}

// header begins the file.
const header = `# What names of images and modules mean. "deployster lock" writes this file:
# keep it with the manifests, and change it with "deployster lock --upgrade".
`

// Encode writes a file.
func (f File) Encode() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(header)
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := encoder.Encode(struct {
		Version int `yaml:"version"`
		File    `yaml:",inline"`
	}{version, f})
	return out.Bytes(), errors.Join(err, encoder.Close())
}

// Write writes the file of a workspace, as a whole or not at all. It has the mode that it had; a new one
// that of any file that is made, as the manifests that it is kept with.
func (f File) Write(workspace string) error {
	text, err := f.Encode()
	if err == nil {
		err = replace(filepath.Join(workspace, Name), text)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", Name, err)
	}
	return nil
}

func replace(path string, text []byte) error {
	f, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Discard()
	mode, err := modeOf(path, f.Name())
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode)); err != nil {
		return err
	}
	return f.Commit()
}

// modeOf is the mode of a file, or that which one gets that is made now, as the umask has it. No other
// name begins with beside.
func modeOf(path, beside string) (fs.FileMode, error) {
	was, err := os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return 0, err
		}
		return was.Mode().Perm(), nil
	}
	made, err := os.OpenFile(beside+"-mode", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666) //nolint:gosec // the umask says who may read it
	if err != nil {
		return 0, err
	}
	is, err := made.Stat()
	if err = errors.Join(err, made.Close(), os.Remove(made.Name())); err != nil {
		return 0, err
	}
	return is.Mode().Perm(), nil
}

// Read reads the file of a workspace; nil where there is none.
func Read(workspace string) (*File, error) {
	path := filepath.Join(workspace, Name)
	file, info, err := regularfile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the lock file: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	if info.Size() > maxSize {
		return nil, fmt.Errorf("reading the lock file: %s %w", path, yamlfile.TooLarge(info.Size(), maxSize))
	}
	text := make([]byte, info.Size())
	n, err := file.ReadAt(text, 0)
	if err != nil && int64(n) < info.Size() {
		return nil, fmt.Errorf("reading the lock file: %w", err)
	}
	return Parse(path, text)
}

var (
	sha256 = pattern.Lazy(`^sha256:[0-9a-f]{64}$`)
	commit = pattern.Lazy(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

// Parse reads what Encode wrote, and perhaps somebody changed. It fails with a *yamlfile.Error.
func Parse(name string, text []byte) (*File, error) {
	f := &File{Images: map[string]Image{}, Modules: map[string]Module{}}
	report := &yamlfile.Report{}
	format := yamlfile.Format{
		Needs: `"deployster lock" writes it`, MaxSize: maxSize,
	}
	root, _ := yamlfile.Open(name, text, format, report)
	if root == nil {
		return f, report.Err()
	}
	fields, ok := root.Fields("the lock file", "version", "images", "modules")
	switch {
	case !ok:
	case fields["version"] == nil:
		root.Fail("the version of its form is missing: write version: %d", version)
	case fields["version"].Kind != yamlfile.Integer || fields["version"].Value != fmt.Sprint(version):
		fields["version"].Fail("has the form %.20s, and this version of Deployster knows %d: use one that fits, or remove the file and lock again", fields["version"].Value, version)
	default:
		for _, m := range members(fields["images"], "names of images") {
			f.Images[m.Name] = readImage(m)
		}
		for _, m := range members(fields["modules"], "sources of modules") {
			f.Modules[m.Name] = readModule(m)
		}
	}
	if err := report.Err(); err != nil {
		return nil, err
	}
	return f, nil
}

func members(n *yamlfile.Node, what string) []*yamlfile.Node {
	if n == nil {
		return nil
	}
	if n.Kind != yamlfile.Mapping {
		n.Fail("must be a mapping of %s, not %s", what, n.Kind)
		return nil
	}
	for _, m := range n.Members {
		switch {
		case m.Name == "":
			m.FailName("has an empty name")
		case len(m.Name) > maxText:
			m.FailName("has a name of %d bytes; at most %d are possible", len(m.Name), maxText)
		case strings.ContainsFunc(m.Name, func(r rune) bool { return !unicode.IsPrint(r) }):
			m.FailName("has a name with a character that cannot be printed")
		}
	}
	return n.Members
}

func readImage(n *yamlfile.Node) (i Image) {
	fields, ok := n.Fields("an image", "digest", "id", "for")
	if !ok {
		return i
	}
	i.Digest = matching(fields["digest"], sha256(), "a digest, sha256: and 64 hexadecimal digits")
	i.ID = matching(fields["id"], sha256(), "the id of an image, sha256: and 64 hexadecimal digits")
	if (fields["digest"] == nil) == (fields["id"] == nil) {
		n.Fail("must have either digest, of an image that a registry has, or id")
	}
	if fields["for"] != nil {
		for _, t := range fields["for"].List("types", maxTypes) {
			if name, ok := t.Line("the name of a type", maxText); ok {
				i.For = append(i.For, name)
			}
		}
	}
	return i
}

func readModule(n *yamlfile.Node) (m Module) {
	fields, ok := n.Fields("a module", "commit", "digest")
	if !ok {
		return m
	}
	m.Commit = matching(fields["commit"], commit(), "a commit, 40 or 64 hexadecimal digits")
	m.Digest = matching(fields["digest"], sha256(), "a digest, sha256: and 64 hexadecimal digits")
	if fields["digest"] == nil {
		n.Fail("must have the digest of its files")
	}
	return m
}

func matching(n *yamlfile.Node, form *regexp.Regexp, what string) string {
	if n == nil {
		return ""
	}
	text, ok := n.Line(what, maxText)
	if ok && !form.MatchString(text) {
		n.Fail("must be %s, not %.100q", what, text)
	}
	return text
}
