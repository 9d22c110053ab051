package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/manifest/address"
)

// Declarations find out what manifests declare now.
type Declarations struct {
	Log deploylog.Log
	Of  Owner // who asks, where it is

	// Sent says that manifests are sent here, so that none of their files are: what their newest runs declared
	// counts.
	Sent bool
}

// Declares reports whether the manifest of a thing declares it: its files, where they are on this machine, as they
// are now; else its newest run. Where one manifest is the other with more files, it is no other one.
func (d Declarations) Declares(ctx context.Context, t *Thing) (bool, error) {
	if d.Of.SharesFiles(t.Owner()) {
		return false, nil
	}
	return d.Declared(ctx, t)
}

// Declared is Declares of any manifest.
func (d Declarations) Declared(ctx context.Context, t *Thing) (bool, error) {
	files, here := d.files(t)
	if !here {
		return d.declaredLast(ctx, t)
	}
	for _, file := range files {
		if declaresIn(file, t.Name) {
			return true, nil
		}
	}
	return false, nil
}

// Gone reports whether it is known that none of the files of the manifest of a thing is there any more.
func (d Declarations) Gone(t *Thing) bool {
	files, here := d.files(t)
	for _, file := range files {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return here
}

// files are those of the manifest of a thing, and whether they are on this machine, if they are there.
func (d Declarations) files(t *Thing) (files []string, here bool) {
	workspace := t.Workspace
	if _, err := os.Stat(workspace); errors.Is(err, fs.ErrNotExist) && t.Here(d.Of) {
		workspace = d.Of.Workspace // it was moved
	}
	for _, file := range t.Manifest {
		if !filepath.IsAbs(file) {
			file = filepath.Join(workspace, file)
		}
		files = append(files, file)
	}
	return files, !d.Sent && (workspace == d.Of.Workspace || t.Here(d.Of))
}

// declaresIn reports whether a file declares a resource. One that cannot be read may.
func declaresIn(file, resource string) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	var written struct {
		Modules   map[string]any `yaml:"modules"`
		Resources map[string]any `yaml:"resources"`
	}
	if yaml.NewDecoder(bytes.NewReader(text)).Decode(&written) != nil {
		return true
	}
	first, rest := address.First(resource)
	name, _, one := address.Written(first)
	if !one {
		name = first
	}
	of := written.Resources
	if rest != "" {
		of = written.Modules
	}
	_, declared := of[name]
	return declared
}

// declaredLast reports whether the newest run of the manifest of a thing declared it. Where none is known, it does.
func (d Declarations) declaredLast(ctx context.Context, t *Thing) (bool, error) {
	target := RunTarget("", t.Manifest)
	for e, err := range d.Log.Read(ctx, deploylog.Filter{Target: target, Name: target.Started(), Last: 1}) {
		if err != nil {
			return false, fmt.Errorf("reading what the newest run of %s declared: %w", t.Owner(), err)
		}
		_, declared := DataOf(e).Resources[t.Name]
		return declared, nil
	}
	return true, nil
}
