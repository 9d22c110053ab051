package work

import (
	"fmt"

	"github.com/deployster-go/deployster/control/revision"
)

// leftOut is why names are left out of what a revision carries.
func (c Carried) leftOut() (map[string]string, error) {
	why := map[string]string{}
	text, some := c[revision.OmittedName]
	if !some {
		return why, nil
	}
	all, err := revision.DecodeOmitted(text)
	for _, o := range all {
		why[o.Name] = o.Why
	}
	return why, err
}

// omit lets a revision carry what is left out of it.
func (c Carried) omit(why map[string]string) error {
	if len(why) == 0 {
		return nil
	}
	text, err := revision.EncodeOmitted(why)
	if err != nil {
		return fmt.Errorf("what is left out: %w", err)
	}
	c[revision.OmittedName] = text
	return nil
}

// Omitted is what was left out of a revision.
func (t Texts) Omitted(files map[string]string) ([]revision.Omitted, error) {
	digest, some := files[revision.OmittedName]
	if !some {
		return nil, nil
	}
	text, err := t.Load(digest)
	if err != nil {
		return nil, fmt.Errorf("what the revision leaves out: %w", err)
	}
	return revision.DecodeOmitted(text)
}

// Omitted is what was left out of a collection.
func (c *Collection) Omitted() ([]revision.Omitted, error) {
	text, some := c.Files[revision.OmittedName]
	if !some {
		return nil, nil
	}
	return revision.DecodeOmitted(text)
}
