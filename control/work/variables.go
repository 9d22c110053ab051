package work

import (
	"crypto/hmac"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/control/origin"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/manifest/vars"
)

// Variables are those that a revision carries, nil of one that carries none because an
// older version made it.
func (t Texts) Variables(files map[string]string) ([]revision.Variable, error) {
	v, carried, err := t.variables(files)
	if err != nil || !carried {
		return nil, err
	}
	return append([]revision.Variable{}, v.Variables...), nil
}

func (t Texts) variables(files map[string]string) (v revision.Variables, carried bool, err error) {
	digest, carried := files[revision.VariablesName]
	if !carried {
		return v, false, nil
	}
	text, err := t.Load(digest)
	if err == nil {
		v, err = revision.DecodeVariables(text)
	}
	if err != nil {
		return v, true, fmt.Errorf("variables: %w", err)
	}
	return v, true, nil
}

// fixed reports whether a revision carries all its variables, none of them as a secret that
// may have another value by now.
func (t Texts) fixed(files map[string]string) bool {
	v, carried, err := t.variables(files)
	return carried && err == nil && !slices.ContainsFunc(v.Variables, func(v revision.Variable) bool { return v.Secret != "" })
}

// Assignments are the variables that a revision carries, with the present values of those
// that are secret, which must be what they were; nil of one that carries none.
func (i Inputs) Assignments(t Texts, files map[string]string) ([]vars.Assignment, error) {
	all, err := i.present(t, files)
	if err == nil {
		err = different(all)
	}
	if err != nil {
		return nil, err
	}
	return assignments(all), nil
}

// references reads the values of secret variables, each file once.
type references struct {
	inputs Inputs
	texts  Texts
	salt   string // SHA-256 of that of the hashes
	key    []byte
	files  map[string]secretFile
}

// secretFile is what was read of a file of variables.
type secretFile struct {
	all []vars.Assignment
	err error
}

// present gives an assignment the present value of a secret variable, unless that is gone. other is why it is not
// certainly what it was.
func (r *references) present(a *vars.Assignment, v revision.Variable) (gone bool, other error) {
	path := r.inputs.roots().Place(v.File)
	if v.Whole {
		text, err := vars.ReadText(path)
		if err != nil {
			return true, fmt.Errorf("it is secret, so the revision carries only its hash, and its file cannot be read: %w; %s", err, referenceRemedy)
		}
		a.Value = text
		return false, r.same(v, *a, path)
	}
	file, read := r.files[path]
	if !read {
		file.all, file.err = vars.In(path)
		r.files[path] = file
	}
	if file.err != nil {
		return true, fmt.Errorf("it is secret, so the revision carries only its hash, and its file cannot be read: %s; %s", vars.WithoutText(file.err, path), referenceRemedy)
	}
	for _, now := range file.all {
		if now.Name == v.Name {
			a.As(now)
			return false, r.same(v, now, path)
		}
	}
	return true, fmt.Errorf("it is secret, so the revision carries only its hash, and %s does not set it any more; %s", path, referenceRemedy)
}

// same fails where a value is not certainly that of a secret variable.
func (r *references) same(v revision.Variable, a vars.Assignment, path string) error {
	if r.key == nil {
		key, err := r.texts.objects.Salt()
		if err == nil && objects.Hash(key) != r.salt {
			err = fmt.Errorf("the salt of hashes: it %w", objects.ErrAltered)
		}
		if err != nil {
			return objects.Remedied(err)
		}
		r.key = key
	}
	hash, err := revision.Hash(r.key, v.Name, a.Value, a.Written())
	if err != nil {
		return err
	}
	if !hmac.Equal([]byte(hash), []byte(v.Secret)) {
		return fmt.Errorf("it is secret, so the revision carries only its hash, and it has another value in %s now; %s", path, referenceRemedy)
	}
	return nil
}

const referenceRemedy = "put the old value back, or make a new revision of the present one"

// roots are where files of variables are.
func (i Inputs) roots() origin.Roots {
	return origin.Roots{Workspace: i.Workspace, Home: i.Home, User: i.conf()}
}

// carry is how a revision carries an assignment whose value may be known, and whether its
// file lies outside of the workspace.
func (i Inputs) carry(a vars.Assignment) (v revision.Variable, outside bool, err error) {
	v.Name = a.Name
	if a.File == "" {
		text, _ := a.Value.(string)
		v.Text, v.From = &text, a.From
		return v, false, nil
	}
	v.Whole = a.Whole
	if v.File, outside, err = i.roots().Name(a.File, origin.Again(a.File)); err == nil {
		if v.YAML = a.Written(); v.YAML == "" {
			v.Value, err = revision.Exactly(a.Value)
		}
	}
	return v, outside, err
}
