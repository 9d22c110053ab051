package revision

import (
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

// EncodeOmitted writes why files are left out, by their names.
func EncodeOmitted(why map[string]string) ([]byte, error) {
	all := omittedFiles{Version: omittedVersion}
	for _, name := range slices.Sorted(maps.Keys(why)) {
		all.Omitted = append(all.Omitted, Omitted{name, why[name]})
	}
	return encode(all)
}

// DecodeOmitted reads what EncodeOmitted wrote.
func DecodeOmitted(text []byte) ([]Omitted, error) {
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

// RefuseOmitted fails for a file that was left out of a revision.
func RefuseOmitted(text []byte, name string) error {
	all, err := DecodeOmitted(text)
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
