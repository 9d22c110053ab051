package objects

import (
	"errors"
	"fmt"
	"io/fs"
)

// Remedied is why a text could not be read, with what to do.
func Remedied(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: give the directory of objects, with all that is in it, to the owner of the log, and where a group shares that to this group, with the mode 0770 of directories and 0660 of files, as any command for pipelines or environments does when the owner of the log runs it", err)
	case errors.Is(err, ErrSalt) && errors.Is(err, ErrAltered):
		return fmt.Errorf("%w: put it back from a copy of the directory of the log; without one, remove it and make new revisions, for which another one is made: those that carry secrets cannot be applied any more", err)
	case errors.Is(err, ErrSalt) && errors.Is(err, ErrMissing):
		return fmt.Errorf("%w: put it back from a copy of the directory of the log, or make new revisions, for which another one is made: those that carry secrets cannot be applied any more", err)
	case errors.Is(err, ErrMissing), errors.Is(err, ErrAltered):
		return fmt.Errorf("%w: put it back from a copy of the directory of the log, or make a new revision of the present files", err)
	}
	return err
}
