package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/managed"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// OrphansFile is the file of which the log says that a run is which removes orphans: there is no such file.
const OrphansFile = "orphans"

// ErrNoOrphans is returned where nothing is to be removed.
var ErrNoOrphans = errors.New("nothing that runs made and that is still there is an orphan that can be removed here")

// OrphansInput is the input of a run that removes orphans: a manifest that declares nothing.
func OrphansInput(c *work.Config) (*work.Input, error) {
	return c.Load([]manifest.Source{{Name: filepath.Join(c.Workspace, OrphansFile), Data: []byte("resources: {}\n")}}, work.LoadOptions{Confirm: runner.ConfirmNo, Removing: true, Assigned: []vars.Assignment{}})
}

// PrepareOrphans describes a run that removes orphans on an engine: those that targets name, with what depends on
// them; none is all. It asks nobody, and changes nothing.
func PrepareOrphans(c *work.Config, in *work.Input, on *work.Connection, o Order, targets []string) *Run {
	o.Removing, o.Files = true, []string{filepath.Join(in.Workspace, OrphansFile)}
	details := maps.Clone(o.Details)
	if details == nil {
		details = map[string]string{}
	}
	details["manifest"], o.Details = OrphansFile, details
	r := Prepare(c, in, on, o)
	r.orphans = &managed.Orphans{Targets: targets}
	return r
}

// newestFirst sorts orphans by their manifests: things of one whose oldest thing was made later may depend on those of
// one before. Of one manifest what was made last comes first.
func newestFirst(list []report.Undeclared) {
	oldest := map[string]time.Time{}
	of := func(u report.Undeclared) string { return u.Owner.Workspace + "\x00" + u.Owner.String() }
	for _, u := range list {
		if at, known := oldest[of(u)]; !known || u.At.Before(at) {
			oldest[of(u)] = u.At
		}
	}
	slices.SortStableFunc(list, func(a, b report.Undeclared) int {
		return cmp.Or(oldest[of(b)].Compare(oldest[of(a)]), strings.Compare(of(a), of(b)), b.At.Compare(a.At))
	})
}

// recallOrphans finds out what the run removes, and notes what stays.
func (r *Run) recallOrphans(ctx context.Context) error {
	if err := r.Identify(ctx); err != nil {
		return err
	}
	history, err := runs.ReadHistory(ctx, r.Control.Log, r.Recorded)
	if err != nil {
		return err
	}
	orphans := r.orphans
	orphans.Log, orphans.Protected, orphans.Engine, orphans.EngineID = r.Control.Log, r.Control.Protected, r.Where(), r.Spec.EngineID
	orphans.Question = managed.Question{Here: r.Here(), Identify: r.Recorded}
	remove, stays, err := orphans.Select(ctx)
	if err != nil {
		return err
	}
	for _, left := range stays {
		r.Control.Notice(fmt.Sprintf("%s of %s stays: %s", left.Name, left.Owner(), left.Why))
	}
	if len(remove) == 0 {
		return ErrNoOrphans
	}
	newestFirst(remove)
	owned, err := r.Owned(ctx, history)
	if err != nil {
		return err
	}
	r.Caller.Past, r.Caller.Owners, r.Caller.Stays = owned.Past, owned, orphans.Stays
	r.Spec.Orphans, r.Spec.Recalled = remove, true
	return nil
}
