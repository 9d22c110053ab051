package planfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
)

// Read reads the saved plan in a file.
func Read(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the saved plan: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("reading the saved plan: %w", err)
	}
	plan, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("the plan %s %w", path, err)
	}
	return plan, nil
}

// Replaceable refuses to write a plan over anything but a plan, or where no file can be.
func Replaceable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			return fmt.Errorf("there is no directory %s", filepath.Dir(path))
		}
		return nil
	case err != nil:
		return fmt.Errorf("looking where to save the plan: %w", err)
	case info.Mode().IsRegular() && (info.Size() == 0 || IsAt(path)):
		return nil
	default:
		return errors.New("it is there and is no saved plan, so it is not overwritten; give another name, or remove it")
	}
}

// Pin records the manifest of the plan and the variables that were set for it:
// Changed says what has become of them.
func (f *File) Pin(m *manifest.Manifest, variables map[string]any) (err error) {
	f.ManifestHash, f.Definitions, f.Variables = m.Hash(), map[string]string{}, map[string]string{}
	for _, r := range m.Resources {
		if f.Definitions[r.Name], err = f.Salt.Fingerprint(r.Hash()); err != nil {
			return fmt.Errorf("taking the hash of what is said of %s: %w", r.Name, err)
		}
	}
	for name, value := range variables {
		if f.Variables[name], err = f.Salt.Fingerprint(value); err != nil {
			return fmt.Errorf("taking the hash of the variable %s: %w", name, err)
		}
	}
	return nil
}

// Changed says what of a manifest, and what of its variables, is no longer as Pin
// recorded it: nothing where the plan still fits.
func (f *File) Changed(m *manifest.Manifest, variables map[string]any) (defined, valued []string, err error) {
	now := File{Salt: f.Salt}
	if err := now.Pin(m, variables); err != nil {
		return nil, nil, err
	}
	if now.ManifestHash != f.ManifestHash {
		var names []string
		for _, r := range m.Resources {
			names = append(names, r.Name)
		}
		placed := func(name string) string { return fmt.Sprintf("%s (%s)", name, m.Resource(name).Position) }
		if defined = differences(f.Definitions, now.Definitions, names, placed, "is another"); len(defined) == 0 {
			defined = []string{"its plugs are others"}
		}
	}
	plain := func(name string) string { return name }
	return defined, differences(f.Variables, now.Variables, slices.Sorted(maps.Keys(now.Variables)), plain, "has another value"), nil
}

// PinIncluded records what resources that the plan leaves open may include, as it is in the
// workspace: their configurations are known only when the plan is applied.
func (f *File) PinIncluded(files map[string][]byte) (err error) {
	f.Includes = map[string]string{}
	for name, text := range files {
		if f.Includes[name], err = f.Salt.Fingerprint(text); err != nil {
			return fmt.Errorf("taking the hash of %s: %w", name, err)
		}
	}
	return nil
}

// ChangedIncluded says which files are no longer as PinIncluded recorded them.
func (f *File) ChangedIncluded(files map[string][]byte) ([]string, error) {
	now := File{Salt: f.Salt}
	if err := now.PinIncluded(files); err != nil || f.Includes == nil {
		return nil, err
	}
	plain := func(name string) string { return name }
	return differences(f.Includes, now.Includes, slices.Sorted(maps.Keys(now.Includes)), plain, "has another text"), nil
}

// differences says in which names two sets of hashes differ; names are those of now.
func differences(was, now map[string]string, names []string, called func(name string) string, another string) []string {
	var said []string
	for _, name := range names {
		switch hash, ok := was[name]; {
		case !ok:
			said = append(said, called(name)+" is new")
		case hash != now[name]:
			said = append(said, called(name)+" "+another)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, ok := now[name]; !ok {
			said = append(said, name+" was removed")
		}
	}
	return said
}

// Complete completes the variables of a command line by what the plan was made
// with. missing are those whose values it does not hold, and which were not given.
func (f *File) Complete(given []vars.Flag) (all []vars.Flag, missing []string) {
	values := map[string][]vars.Flag{}
	for _, v := range given {
		values[v.Name] = append(values[v.Name], v) // "" is of files
	}
	// In the order that the plan was made with, since later ones win.
	for _, v := range f.Given {
		again, given := values[v.Name]
		switch {
		case v.File != "":
			all = append(all, vars.Flag{File: v.File})
		case len(again) > 0:
			all = append(all, again[0])
			values[v.Name] = again[1:]
		case !given && !slices.Contains(missing, v.Name):
			missing = append(missing, v.Name)
		}
	}
	if len(values[""]) > 0 { // who gives files gives all of them, in their order
		return given, missing
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, values[name]...)
	}
	return all, missing
}
