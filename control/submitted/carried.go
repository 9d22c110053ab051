package submitted

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/control/packages"
	"github.com/deployster-go/deployster/internal/objects"
)

// Carried completes a group that a revision is to carry for a stage that builds the packages of a
// file, and returns it as it is to be carried. What is wrong with it is found now, and not when the
// stage begins: perhaps days later, and perhaps when somebody has approved it.
func (c Checker) Carried(ctx context.Context, text []byte, file string) (whole []byte, err error) {
	if err := BoundCarried(text); err != nil {
		return nil, err
	}
	carried, err := packages.Decode(text)
	if err != nil {
		return nil, &InvalidError{err}
	}
	s := &carried.Submit
	if s.File != file {
		return nil, invalid("it is of %.200q, and the stage builds %.200q", s.File, file)
	}
	own := map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(carried.Files)) {
		content := []byte(carried.Files[name])
		hash := objects.Hash(content)
		if s.Carries[name] != hash {
			return nil, invalid("its file %.200q is not the one that it carries", name)
		}
		own[hash] = content
	}
	if err := c.beside(own).Complete(ctx, s); err != nil {
		return nil, err
	}
	s.By, s.Pipeline = "", nil // which is the stage's to say
	if _, err := build.New("").Propose(*s, time.Time{}); err != nil {
		return nil, &InvalidError{err}
	}
	return carried.Encode()
}

// beside is the checker of a group that brings files, which are kept when it is submitted.
func (c Checker) beside(own map[string][]byte) Checker {
	load, check := c.Load, c.Check
	c.Load = func(hash string) ([]byte, error) {
		if content, brought := own[hash]; brought {
			return content, nil
		}
		return load(hash)
	}
	c.Check = func(hash string) error {
		if _, brought := own[hash]; brought {
			return nil
		}
		return check(hash)
	}
	return c
}
