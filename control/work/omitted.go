package work

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// OmittedName is the name of what was left out among what a revision carries; see
// VariablesName.
const OmittedName = "/omitted"

// omittedVersion is that of the form in which is told what was left out.
const omittedVersion = 1

// Omitted is a file, or a directory with all that is in it, that lies where something is
// included and cannot be carried. Who includes it is refused: that nothing is there would be
// another matter.
type Omitted struct {
	Name string `json:"name"`
	Why  string `json:"why"` // a sentence
}

// Described says in words what was left out, and why.
func (o Omitted) Described() string {
	return fmt.Sprintf("%s is left out: %s", o.Name, o.Why)
}

type omittedFiles struct {
	Version int       `json:"version"`
	Omitted []Omitted `json:"omitted"` // sorted
}

// omittedBy begins with what is left out of what another revision carries.
func (c *collector) omittedBy(kept Carried) error {
	c.omitted = map[string]string{}
	text, some := kept[OmittedName]
	if !some {
		return nil
	}
	all, err := decodeOmitted(text)
	for _, o := range all {
		c.omitted[o.Name] = o.Why
	}
	return err
}

// omit lets a revision carry what is left out of it.
func (c Carried) omit(why map[string]string) error {
	if len(why) == 0 {
		return nil
	}
	all := omittedFiles{Version: omittedVersion}
	for _, name := range slices.Sorted(maps.Keys(why)) {
		all.Omitted = append(all.Omitted, Omitted{name, why[name]})
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return fmt.Errorf("what is left out: %w", err)
	}
	c[OmittedName] = out.Bytes()
	return nil
}

func decodeOmitted(text []byte) ([]Omitted, error) {
	var all omittedFiles
	err := json.Unmarshal(text, &all)
	if err == nil && all.Version > omittedVersion {
		err = fmt.Errorf("it has the form %d, which this version does not know: use a newer one", all.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("what the revision leaves out: %w", err)
	}
	return all.Omitted, nil
}

// Omitted is what was left out of a revision.
func (t Texts) Omitted(files map[string]string) ([]Omitted, error) {
	digest, some := files[OmittedName]
	if !some {
		return nil, nil
	}
	text, err := t.Load(digest)
	if err != nil {
		return nil, fmt.Errorf("what the revision leaves out: %w", err)
	}
	return decodeOmitted(text)
}

// Omitted is what was left out of a collection.
func (c *Collection) Omitted() ([]Omitted, error) {
	text, some := c.Files[OmittedName]
	if !some {
		return nil, nil
	}
	return decodeOmitted(text)
}

// refuseOmitted fails for a file that was left out of a revision.
func refuseOmitted(text []byte, name string) error {
	all, err := decodeOmitted(text)
	if err != nil {
		return err
	}
	for _, o := range all {
		switch {
		case o.Name == name:
			return errors.New("the revision was made without it: " + o.Why + "; correct or remove it, and make a new revision")
		case strings.HasPrefix(name, o.Name+"/"):
			return fmt.Errorf("the revision was made without %s: %s; correct or remove that, and make a new revision", o.Name, o.Why)
		}
	}
	return nil
}
