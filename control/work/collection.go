package work

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/deployster-go/deployster/control/inclusion"
	"github.com/deployster-go/deployster/control/origin"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// Collection is what a revision is to carry: files as they were read, and, once they are
// pinned, variables.
type Collection struct {
	Files       Carried
	Assignments []vars.Assignment // of variables that something in it may read, in the order in which they count
	Unread      []vars.Assignment // the others

	manifests []manifest.Source
	evaluator *expression.Evaluator // over the files
}

// collector reads what a collection carries.
type collector struct {
	*inclusion.Reader
	workspace string
}

// Collect reads what manifests and the values of variables include, each file once. The
// name of each of the manifests is its path below the workspace. With kept, which another
// revision carries, the manifests have what they include.
func Collect(workspace string, kept Carried, given []vars.Assignment, manifests ...manifest.Source) (*Collection, error) {
	files := Carried{}
	maps.Copy(files, kept)
	delete(files, revision.VariablesName)
	delete(files, revision.ImagesName)
	omitted, err := kept.leftOut()
	if err != nil {
		return nil, &InputError{err}
	}
	for _, m := range manifests {
		files[m.Name] = m.Data
	}
	c := collector{inclusion.New(workspace, files, omitted), workspace}
	for _, m := range manifests {
		if kept != nil {
			break // they are there, with all that the manifests include
		}
		possible, err := manifest.Includes(m, c.Expressions)
		if err == nil {
			err = c.Follow(possible)
		}
		if err == nil {
			err = c.Bounded()
		}
		if err != nil {
			return nil, &InputError{err}
		}
	}
	collected := &Collection{Files: files, manifests: manifests, evaluator: c.Expressions}
	err = c.assign(collected, given)
	if err == nil {
		err = c.unchanged(collected, kept, given)
	}
	if err == nil {
		err = files.omit(omitted)
	}
	if err != nil {
		return nil, &InputError{err}
	}
	return collected, nil
}

// unchanged fails where a file is another by now: what was read of several files while
// somebody saved them need not belong together.
func (c collector) unchanged(collected *Collection, kept Carried, given []vars.Assignment) error {
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		_, ofBase := kept[name]
		if ofBase || slices.ContainsFunc(collected.manifests, func(m manifest.Source) bool { return m.Name == name }) {
			continue
		}
		if text, err := expression.Workspace(c.workspace)(name); err != nil || text != string(c.Files[name]) {
			return fmt.Errorf("%s was changed while it was read: try again", name)
		}
	}
	var now []vars.Assignment
	for i, a := range given {
		if a.File == "" || !origin.Again(a.File) {
			continue
		}
		if a.Whole {
			if text, err := vars.ReadText(a.File); err != nil || text != a.Value {
				return fmt.Errorf("%s was changed while it was read: try again", a.File)
			}
			continue
		}
		if i == 0 || given[i-1].File != a.File {
			var err error
			if now, err = vars.In(a.File); err != nil {
				return err
			}
		}
		same := func(n vars.Assignment) bool {
			return n.Name == a.Name && reflect.DeepEqual(n.Value, a.Value) && n.Written() == a.Written()
		}
		if !slices.ContainsFunc(now, same) {
			return fmt.Errorf("%s was changed while it was read: try again", a.File)
		}
	}
	return nil
}

// assign collects the variables that may be read, if only by the value of another one,
// with what they include.
func (c collector) assign(collected *Collection, given []vars.Assignment) error {
	var written []any
	for _, m := range collected.manifests {
		written = append(written, manifest.Written(m)...)
	}
	names, all := map[string]bool{}, false
	read := make([]bool, len(given))
	for more := []any(written); len(more) > 0; {
		some, any := c.names(more)
		maps.Copy(names, some)
		all, more = all || any, nil
		for i, a := range given {
			if read[i] || !all && !names[a.Name] {
				continue
			}
			read[i], more = true, append(more, a.Value)
			if err := c.include(a); err != nil {
				return err
			}
		}
	}
	for i, a := range given {
		if read[i] {
			collected.Assignments = append(collected.Assignments, a)
		} else {
			collected.Unread = append(collected.Unread, a)
		}
	}
	return nil
}

// Unchanged is the same of manifests that were read from files of the workspace.
func (c *Collection) Unchanged(workspace string) error {
	for _, m := range c.manifests {
		if text, err := ReadFile(filepath.Join(workspace, filepath.FromSlash(m.Name))); err != nil || !bytes.Equal(text, m.Data) {
			return &InputError{fmt.Errorf("%s was changed while it was read: try again", m.Name)}
		}
	}
	return nil
}

// include reads what the value of a variable may include.
func (c collector) include(a vars.Assignment) error {
	possible, err := c.Expressions.Possible(a.Value)
	if err == nil && possible.Anywhere {
		err = inclusion.ErrAnywhere
	}
	if err == nil {
		err = c.FollowIn("", possible)
	}
	if err != nil {
		return &manifest.Error{Problems: []manifest.Problem{{Position: a.At, Path: a.Name, Message: err.Error()}}}
	}
	return c.Bounded()
}

// names are those that something written may read; all is that they may be any. Of what
// is no expression nobody knows.
func (c collector) names(written any) (names map[string]bool, all bool) {
	names, all, err := c.Expressions.Names(written, slices.Collect(maps.Keys(c.Files)))
	return names, all || err != nil
}

// CollectPipeline reads the manifests of a pipeline with all that they, and the values of
// variables, include. read reads the variables for them.
func CollectPipeline(workspace string, read func(...manifest.Source) ([]vars.Assignment, error), d *definition.Definition) (*Collection, error) {
	var manifests []manifest.Source
	var problems []error
	d.Manifests(func(stage string, name *string) {
		if slices.ContainsFunc(manifests, func(m manifest.Source) bool { return m.Name == *name }) {
			return
		}
		at := filepath.Join(workspace, filepath.FromSlash(*name))
		_, err := ManifestBelow(workspace, at)
		if err == nil {
			var text []byte
			text, err = ReadFile(at)
			manifests = append(manifests, manifest.Source{Name: *name, Data: text})
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("stage %s: manifest %s: %w", stage, *name, err))
		}
	})
	if err := errors.Join(problems...); err != nil {
		return nil, &InputError{err}
	}
	given, err := read(manifests...)
	if err != nil {
		return nil, err
	}
	collected, err := Collect(workspace, nil, given, manifests...)
	if err != nil {
		return nil, err
	}
	return collected, collected.Unchanged(workspace)
}
