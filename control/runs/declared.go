package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/manifest/address"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/runner/taken"
)

// Declarations find out what manifests declare now.
type Declarations struct {
	Log deploylog.Log
	Of  Owner // who asks, where it is

	// Sent says that manifests are sent here, so that none of their files are: what their newest runs declared
	// counts.
	Sent bool

	read *reading // what was found out before; nil is that each question reads anew
}

// reading is what was read to answer many questions.
type reading struct {
	files  map[string]*written
	beside map[string][]string        // files of YAML in directories
	gone   map[string]bool            // workspaces
	last   map[string]map[string]bool // what the newest runs of manifests declared; nil is that none is known

	expanded map[string]map[string]string // which instances resources had in these; nil is that it is not known
}

// Remembering returns Declarations that read each file and each newest run once. It is for many questions at
// one moment, and not safe for concurrent use.
func (d Declarations) Remembering() Declarations {
	d.read = &reading{files: map[string]*written{}, beside: map[string][]string{}, gone: map[string]bool{}, last: map[string]map[string]bool{}, expanded: map[string]map[string]string{}}
	return d
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
	files, here := d.files(t.Owner())
	if !here {
		return d.declaredLast(ctx, t)
	}
	for _, file := range files {
		w := d.open(file)
		if !w.declares(t.Name) {
			continue
		}
		said, _ := w.declaration(t.Name)
		may, all := expands(said, t.Name)
		if whole := address.WithoutKeys(t.Name) == t.Name; !may || all || whole && !conditional(said) {
			return may, nil
		}
		return d.declaredLast(ctx, t) // variables decide whether it is, and which instances there are
	}
	if sent, err := d.sent(ctx, t.Run); err != nil || !sent {
		return false, err
	}
	return d.declaredLast(ctx, t) // no file of it was ever here
}

// sent reports whether the manifests of a run were sent to where it was.
func (d Declarations) sent(ctx context.Context, run string) (is bool, err error) {
	for e, err := range d.Log.Read(ctx, deploylog.Filter{Deployment: run, Name: string(report.RunStarted)}) {
		if err != nil {
			return false, fmt.Errorf("reading of which manifest run %s was: %w", run, err)
		}
		is = DataOf(e).Carries != nil
	}
	return is, nil
}

// Perhaps returns a resource that may be the thing under another name, with its file: one of its type whose
// configuration, as far as it is written out, identifies the same. is says whether runs made something else as the resource.
func (d Declarations) Perhaps(t *Thing, is func(file, resource string) (bool, error)) (file, resource string, err error) {
	files, here := d.files(t.Owner())
	if !here || t.Identity == nil {
		return "", "", nil
	}
	var all []string
	for _, own := range files {
		all = append(all, d.besides(filepath.Dir(own))...)
	}
	slices.Sort(all)
	for _, file := range slices.Compact(all) {
		resources := d.open(file).Resources
		for _, name := range slices.Sorted(maps.Keys(resources)) {
			if name == t.Name && slices.Contains(files, file) || !mayBe(resources[name], t) {
				continue
			}
			if other, err := is(file, name); err != nil || !other {
				return file, name, err
			}
		}
	}
	return "", "", nil
}

// member is what a configuration has at a path such as metadata.name; nil is nothing.
func member(config map[string]any, path string) (value any) {
	value = config
	for name := range strings.SplitSeq(path, ".") {
		of, _ := value.(map[string]any)
		value = of[name]
	}
	return value
}

// mayBe reports whether a declaration, as it is written, may be of a thing.
func mayBe(said any, t *Thing) bool {
	of, _ := said.(map[string]any)
	if taken.Image(typeOf(said)) != taken.Image(t.Type) {
		return false
	}
	config, _ := of["config"].(map[string]any)
	named := false // something of it identifies the thing
	for name, part := range t.Identity.Parts {
		value := member(config, name)
		text, literal := value.(string)
		template := literal && (strings.Contains(text, "{{") || strings.Contains(text, "{%"))
		if value != nil && !template && !strings.HasPrefix(part, "hmac:") && fmt.Sprint(value) != part {
			return false
		}
		named = named || value != nil
	}
	return named
}

// conditional reports whether a declaration, as it is written, is one only if something holds.
func conditional(said any) bool {
	of, _ := said.(map[string]any)
	_, is := of["when"]
	return is
}

// expands reports whether a declaration, as it is written, may come to an instance, and whether that says all.
func expands(said any, resource string) (may, all bool) {
	first, rest := address.First(resource)
	_, key, one := address.Written(first)
	of, _ := said.(map[string]any)
	if !one || of == nil {
		return true, false
	}
	var keys []string
	switch each := of["for_each"].(type) {
	case nil:
		return false, true
	case []any:
		for _, member := range each {
			switch member.(type) {
			case string, int, bool:
				keys = append(keys, fmt.Sprint(member))
			default: // a date, a number with a point: its text is not known here
				return true, false
			}
		}
	case map[string]any:
		keys = slices.Collect(maps.Keys(each))
	default:
		return true, false
	}
	if slices.ContainsFunc(keys, func(key string) bool { return strings.Contains(key, "{{") }) {
		return true, false
	}
	return slices.Contains(keys, key), rest == "" && !conditional(of)
}

// Gone reports whether it is known that none of the files of a manifest is there any more.
func (d Declarations) Gone(o Owner) bool {
	files, here := d.files(o)
	for _, file := range files {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return here
}

// files are those of a manifest, and whether they are on this machine, if they are there.
func (d Declarations) files(o Owner) (files []string, here bool) {
	workspace := o.Workspace
	if o.here(d.Of) && d.missing(workspace) {
		workspace = d.Of.Workspace // it was moved
	}
	for _, file := range o.Manifest {
		if !filepath.IsAbs(file) {
			file = filepath.Join(workspace, file)
		}
		files = append(files, file)
	}
	return files, !d.Sent && (workspace == d.Of.Workspace || o.here(d.Of))
}

// missing reports whether a workspace is not there.
func (d Declarations) missing(workspace string) bool {
	if d.read != nil {
		if gone, known := d.read.gone[workspace]; known {
			return gone
		}
	}
	_, err := os.Stat(workspace)
	gone := errors.Is(err, fs.ErrNotExist)
	if d.read != nil {
		d.read.gone[workspace] = gone
	}
	return gone
}

// written is what a file declares, as far as that is told without its variables.
type written struct {
	Name      string         `yaml:"name"`
	Modules   map[string]any `yaml:"modules"`
	Resources map[string]any `yaml:"resources"`

	missing bool
	unknown bool // it cannot be read, so that it may declare anything
}

// open reads a file.
func (d Declarations) open(file string) *written {
	if d.read != nil && d.read.files[file] != nil {
		return d.read.files[file]
	}
	w := &written{}
	text, err := os.ReadFile(file)
	if w.missing = errors.Is(err, fs.ErrNotExist); err == nil {
		err = yaml.NewDecoder(bytes.NewReader(text)).Decode(w)
	}
	w.unknown = err != nil && !w.missing
	if d.read != nil {
		d.read.files[file] = w
	}
	return w
}

// declares reports whether the file declares a resource. One that cannot be read may.
func (w *written) declares(resource string) bool {
	if w.unknown {
		return true
	}
	_, declared := w.declaration(resource)
	return declared
}

// declaration is what the file says of a resource, or of the module that it is in.
func (w *written) declaration(resource string) (any, bool) {
	first, rest := address.First(resource)
	name, _, one := address.Written(first)
	if !one {
		name = first
	}
	of := w.Resources
	if rest != "" {
		of = w.Modules
	}
	said, declared := of[name]
	return said, declared
}

// declaredLast reports whether the newest run of all of the manifest of a thing declared it, or a run since. Where none
// is known, it is declared.
func (d Declarations) declaredLast(ctx context.Context, t *Thing) (bool, error) {
	target, owner := RunTarget("", t.Manifest), t.Owner()
	key := strings.Join([]string{string(target), owner.Name, owner.Workspace}, "\x00")
	var last map[string]bool
	known := false
	if d.read != nil {
		last, known = d.read.last[key]
	}
	if !known {
		var err error
		if last, err = d.lastDeclared(ctx, target, owner); err != nil {
			return false, err
		}
		if d.read != nil {
			d.read.last[key] = last
		}
	}
	if last == nil || last[t.Name] {
		return true, nil
	}
	if late := address.Declared(t.Name); last[late] { // which instances it has is found out in a run
		return d.expandedLast(ctx, t, late)
	}
	return false, nil
}

// expandedLast reports whether an instance was among those that a resource came to in the newest run of all of its
// manifest. If none is known, it is.
func (d Declarations) expandedLast(ctx context.Context, t *Thing, late string) (bool, error) {
	if late == t.Name {
		return true, nil
	}
	key := strings.Join([]string{late, t.Owner().Name, t.Owner().Workspace, strings.Join(t.Manifest, " ")}, "\x00")
	if d.read != nil {
		if has, known := d.read.expanded[key]; known {
			return has == nil || has[t.Name] != "", nil
		}
	}
	has, err := d.lastExpanded(ctx, late, t.Owner())
	if d.read != nil && err == nil {
		d.read.expanded[key] = has
	}
	return has == nil || has[t.Name] != "", err
}

// lastExpanded are the types of the instances that a resource came to, by name; nil is not known.
func (d Declarations) lastExpanded(ctx context.Context, late string, owner Owner) (map[string]string, error) {
	var newest []deploylog.Event
	for e, err := range d.Log.Read(ctx, deploylog.Filter{Target: resourceTarget(late), Name: string(report.ResourceExpanded), Last: newestRuns}) {
		if err != nil {
			return nil, fmt.Errorf("reading which instances %s had last: %w", late, err)
		}
		newest = append(newest, e)
	}
	all := map[string]string{}
	for _, e := range slices.Backward(newest) {
		if e.Revision == "" { // by what removes it
			continue
		}
		whole, err := d.wholeRun(ctx, e.Deployment, owner)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, DataOf(e).Resources) // a run of some targets may have added some
		if whole {
			return all, nil
		}
	}
	return nil, nil
}

// wholeRun reports whether a run was of all of a manifest.
func (d Declarations) wholeRun(ctx context.Context, run string, owner Owner) (whole bool, err error) {
	for e, err := range d.Log.Read(ctx, deploylog.Filter{Deployment: run, Name: string(report.RunStarted)}) {
		if err != nil {
			return false, fmt.Errorf("reading of which manifest run %s was: %w", run, err)
		}
		p := DataOf(e)
		whole = p.Whole && p.Of != nil && p.Of.same(owner)
	}
	return whole, nil
}

// lastDeclared are the resources that the newest run of all of a manifest declared, and runs since; nil is that none is
// known. Runs of the same files elsewhere count, too: they may be of the same manifest.
func (d Declarations) lastDeclared(ctx context.Context, target deploylog.Target, owner Owner) (map[string]bool, error) {
	last := map[string]bool{}
	f := deploylog.Filter{Target: target, Name: target.Started(), Last: newestRuns}
	for range mostRuns / newestRuns {
		var newest []deploylog.Event
		for e, err := range d.Log.Read(ctx, f) {
			if err != nil {
				return nil, fmt.Errorf("reading what the newest runs of %s declared: %w", owner, err)
			}
			newest = append(newest, e)
		}
		for _, e := range slices.Backward(newest) {
			run := DataOf(e)
			for name := range run.Resources {
				last[name] = true
			}
			if run.Whole && run.Of != nil && run.Of.same(owner) {
				return last, nil
			}
		}
		if len(newest) < newestRuns || newest[0].Seq == 1 {
			break
		}
		f.Until = newest[0].Seq - 1
	}
	return nil, nil
}

// The bounds of how many runs of a manifest are looked at, at once and in all, until one was of all of it.
const (
	newestRuns = 10
	mostRuns   = 500
)

// Renamed returns the files that a manifest may be called now whose files are gone, as they declare a thing of it:
// those that are beside it and declare something of the same name and type. sure says that the first one is, as
// both say that they have the same name.
func (d Declarations) Renamed(t *Thing) (to []string, sure bool) {
	files, here := d.files(t.Owner())
	if !here {
		return nil, false
	}
	seen := map[string]bool{}
	for _, gone := range files {
		dir := filepath.Dir(gone)
		if seen[dir] {
			continue
		}
		seen[dir] = true
		for _, other := range d.besides(dir) {
			w := d.open(other)
			said, declared := w.declaration(t.Name)
			switch {
			case !declared:
			case t.ManifestName != "" && w.Name == t.ManifestName:
				return []string{other}, true
			case t.ManifestName == "" && w.Name == "" && typeOf(said) == t.Type:
				to = append(to, other)
			}
		}
	}
	return to, false
}

// besides are the files of YAML in a directory.
func (d Declarations) besides(dir string) (files []string) {
	if d.read != nil && d.read.beside[dir] != nil {
		return d.read.beside[dir]
	}
	files = []string{}
	for _, pattern := range []string{"*.yaml", "*.yml"} {
		some, _ := filepath.Glob(filepath.Join(dir, pattern))
		files = append(files, some...)
	}
	if d.read != nil {
		d.read.beside[dir] = files
	}
	return files
}

// NameIn returns the name that a file says its manifest has; "" is none, or that it cannot be read.
func NameIn(file string) string { return Declarations{}.open(file).Name }

// typeOf is the type of a declaration, as it is written.
func typeOf(said any) string {
	of, _ := said.(map[string]any)
	typ, _ := of["type"].(string)
	return typ
}
