package runs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner/report"
)

// Owner is a manifest as the log knows it: whose a thing is.
type Owner struct {
	Name      string   `json:"name,omitempty"` // that the manifest says it has; "" is none
	Manifest  []string `json:"manifest"`       // files, sorted
	Workspace string   `json:"workspace"`
	Machine   string   `json:"machine,omitempty"` // on which this is; "" is not known
	Shared    bool     `json:"-"`                 // the log is of several machines
}

// OrphansTarget is the target of the runs that remove what no manifest declares any more.
const OrphansTarget deploylog.Target = "run/orphans"

// Owner is whose things are that the run makes.
func (o Options) Owner() Owner {
	return Owner{o.ManifestName, o.Manifest, o.Workspace, o.Machine, deploylog.Shared(o.Log)}
}

// String names the manifest for people: by its name, else by its files.
func (o Owner) String() string {
	if o.Name != "" {
		return o.Name
	}
	return strings.Join(o.Manifest, " ")
}

// same reports whether two records are of one manifest, as far as they alone say that.
func (o Owner) same(other Owner) bool {
	if o.Name != "" && other.Name != "" {
		return o.Name == other.Name
	}
	return o.Workspace == other.Workspace && slices.Equal(o.Manifest, other.Manifest)
}

// Of reports whether a thing is of a manifest. A manifest with a name is known by that, whatever its files are
// called. Else it is known by its files and by the path of its workspace, on whichever machine: those that share
// a log, such as those of a CI, have the same there. A workspace that is no longer there was moved to where the
// manifest is now, if it ever was here.
func (t Thing) Of(o Owner) bool { return t.Owner().Is(o) }

// Is reports whether a recorded owner is a manifest, see Thing.Of.
func (o Owner) Is(now Owner) bool {
	if o.same(now) {
		return true
	}
	if o.Name != "" && now.Name != "" || !slices.Equal(o.Manifest, now.Manifest) || !o.here(now) {
		return false
	}
	_, err := os.Stat(o.Workspace)
	return errors.Is(err, fs.ErrNotExist)
}

// Here reports whether the thing is known to have been made on the machine of an owner. A log that is not of
// several machines is, with its workspace, on one.
func (t Thing) Here(o Owner) bool { return t.Owner().here(o) }

func (o Owner) here(now Owner) bool {
	return !now.Shared || o.Machine != "" && o.Machine == now.Machine
}

// IsOf reports whether a run was of a manifest, with these files or with more or fewer of them. A run that the log
// does not know is of each.
func IsOf(ctx context.Context, log deploylog.Log, run string, o Owner) (bool, error) {
	for e, err := range log.Read(ctx, deploylog.Filter{Deployment: run, Name: string(report.RunStarted)}) {
		if err != nil {
			return false, fmt.Errorf("reading of which manifest run %s was: %w", run, err)
		}
		return isOf(e, o), nil
	}
	return true, nil
}

// isOf reports whether a run that began with an event was of a manifest, see IsOf.
func isOf(began deploylog.Event, o Owner) bool {
	was := DataOf(began).Of
	if was == nil { // by a former version
		_, names, _ := strings.Cut(string(began.Target), "/")
		was = &Owner{Manifest: strings.Split(names, "+"), Workspace: o.Workspace}
	}
	return was.same(o) || was.SharesFiles(o)
}

func within(some, all []string) bool {
	return !slices.ContainsFunc(some, func(file string) bool { return !slices.Contains(all, file) })
}

// SharesFiles reports whether one of two manifests, in one workspace, is the other with more files.
func (o Owner) SharesFiles(other Owner) bool {
	return o.Workspace == other.Workspace && (within(o.Manifest, other.Manifest) || within(other.Manifest, o.Manifest))
}

// owned is a manifest in the form of the runner.
func (o Owner) owned() report.OwnedBy {
	return report.OwnedBy{Name: o.Name, Files: o.Manifest, Workspace: o.Workspace, Machine: o.Machine}
}

func ownerOf(m report.OwnedBy) Owner {
	return Owner{Name: m.Name, Manifest: m.Files, Workspace: m.Workspace, Machine: m.Machine}
}
