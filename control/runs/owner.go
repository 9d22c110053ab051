package runs

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
)

// Owner is whose things are: a manifest, where it is.
type Owner struct {
	Manifest  []string // files, sorted
	Workspace string
	Machine   string // on which this is; "" is not known
	Shared    bool   // the log is of several machines
}

// Owner is whose things are that the run makes.
func (o Options) Owner() Owner {
	return Owner{o.Manifest, o.Workspace, o.Machine, deploylog.Shared(o.Log)}
}

// Of reports whether a run of a manifest made the thing. The workspace is known by its path, on whichever
// machine: those that share a log, such as those of a CI, have the same there. One that is no longer there was
// moved to where the manifest is now, if it ever was here.
func (t Thing) Of(o Owner) bool {
	switch {
	case !slices.Equal(t.Manifest, o.Manifest):
		return false
	case t.Workspace == o.Workspace:
		return true
	case !t.Here(o):
		return false
	}
	_, err := os.Stat(t.Workspace)
	return errors.Is(err, fs.ErrNotExist)
}

// Here reports whether the thing is known to have been made on the machine of an owner. A log that is not of
// several machines is, with its workspace, on one.
func (t Thing) Here(o Owner) bool {
	return !o.Shared || t.Machine != "" && t.Machine == o.Machine
}
