// Package managed lists what runs made and is still there: of which manifest it is, how its last run found it,
// and whether anything declares it. A thing that nothing declares is an orphan.
package managed

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner/report"
)

// Standing is whether anything declares a thing.
type Standing string

// The standings of things.
const (
	Declared   Standing = "declared"
	Undeclared Standing = "undeclared"    // its manifest is there, and no longer declares it
	Gone       Standing = "manifest-gone" // no file of its manifest is there
	Replaced   Standing = "replaced"      // its resource is another thing by now
)

// Orphan reports whether nothing declares the thing.
func (s Standing) Orphan() bool { return s != Declared }

// Verdict is how the last run that came to a thing left it.
type Verdict string

// The verdicts of runs.
const (
	AsConfigured Verdict = "as-configured"
	Changed      Verdict = "changed" // by the run, and verified
	Failed       Verdict = "failed"
	Removed      Verdict = "removed" // the run removed it, or did not find it; the next one that changes it makes it again
	Uncertain    Verdict = "unknown" // the run died, or lost its engine, while an action was running
)

// Text is the verdict for people.
func (v Verdict) Text() string { return strings.ReplaceAll(string(v), "-", " ") }

// Thing is something that a run made.
type Thing struct {
	*runs.Thing
	Standing  Standing
	RenamedTo string // Gone: the file that may be its manifest under another name, as it declares the same; "" is none
	Seen      Seen

	candidates []string // for RenamedTo
}

// Seen is what a run found of a thing.
type Seen struct {
	Verdict Verdict
	Run     string
	At      time.Time

	seq int64
}

// Question is what is asked for. Its fields may be zero.
type Question struct {
	Here     runs.Owner                         // who asks, and on which machine
	Identify func(runs.Making) *report.Identity // finds out the identities of what former versions recorded

	Manifest string // only what is of this manifest: its name, or one of its files; "" is all
	Orphans  bool   // only what nothing declares
}

// List answers from the log, by manifest and by name.
func List(ctx context.Context, log deploylog.Log, q Question) ([]*Thing, error) {
	history, err := runs.ReadHistory(ctx, log, q.Identify)
	if err != nil {
		return nil, err
	}
	known, err := ReadRuns(ctx, log)
	if err != nil {
		return nil, err
	}
	things, err := Of(ctx, log, history, q, known)
	if err != nil {
		return nil, err
	}
	return things, known.see(ctx, log, things)
}

// Of is List of a history that was read already, without what runs found.
func Of(ctx context.Context, log deploylog.Log, history *runs.History, q Question, known *Runs) ([]*Thing, error) {
	declared := runs.Declarations{Log: log, Of: q.Here}.Remembering()
	sent := declared
	sent.Sent = true
	var things []*Thing
	all, err := history.All(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if len(t.Manifest) == 0 || q.Manifest != "" && !IsOf(t, q.Manifest, q.Here.Workspace) {
			continue // what is made in places is of the environment or the pipeline there
		}
		by := declared
		if known.sent[t.Run] {
			by = sent
		}
		one, err := standing(ctx, by, t, known)
		if err != nil {
			return nil, err
		}
		if !q.Orphans || one.Standing.Orphan() {
			things = append(things, one)
		}
	}
	mostAlike(things, q.Here.Workspace)
	keys := make(map[*Thing]string, len(things))
	for _, t := range things {
		keys[t] = t.key()
	}
	slices.SortStableFunc(things, func(a, b *Thing) int { return strings.Compare(keys[a], keys[b]) })
	return things, nil
}

// Standing finds out whether anything declares a thing.
func standing(ctx context.Context, declared runs.Declarations, t *runs.Thing, known *Runs) (*Thing, error) {
	one := &Thing{Thing: t, Standing: Replaced}
	if t.Deposed {
		return one, nil
	}
	declares, err := declared.Declared(ctx, t)
	if err != nil {
		return nil, err
	}
	switch {
	case declares:
		one.Standing = Declared
	case !declared.Gone(t.Owner()):
		one.Standing = Undeclared
	default:
		files, sure := declared.Renamed(t)
		if sure {
			one.Standing = Declared
			return one, nil
		}
		one.Standing = Gone
		for _, file := range files { // one that was applied itself is another manifest
			if !known.files[file] {
				one.candidates = append(one.candidates, file)
			}
		}
		if len(one.candidates) > 0 {
			one.RenamedTo = one.candidates[0]
		}
	}
	return one, nil
}

// mostAlike has what a manifest made be renamed to the file that declares most of that.
func mostAlike(things []*Thing, workspace string) {
	declare := map[owner]map[string]int{}
	for _, t := range things {
		of := ownerOf(t.Owner())
		for _, file := range t.candidates {
			if declare[of] == nil {
				declare[of] = map[string]int{}
			}
			declare[of][file]++
		}
	}
	for _, t := range things {
		if len(t.candidates) == 0 {
			continue
		}
		of := declare[ownerOf(t.Owner())]
		t.RenamedTo = slices.MaxFunc(t.candidates, func(a, b string) int { return of[a] - of[b] })
		if below, err := filepath.Rel(workspace, t.RenamedTo); err == nil && filepath.IsLocal(below) {
			t.RenamedTo = below
		}
	}
}

// IsOf reports whether a thing is of a manifest, by the name that this says it has, or by one of its files, as
// it is written in a workspace.
func IsOf(t *runs.Thing, manifest, workspace string) bool {
	if t.ManifestName == manifest {
		return true
	}
	for _, file := range Files(manifest, workspace) {
		if slices.Contains(t.Manifest, file) {
			return true
		}
	}
	return false
}

// Files are the ways in which the log may name a file.
func Files(file, workspace string) []string {
	names := []string{file, filepath.Clean(file)}
	if whole, err := filepath.Abs(file); err == nil {
		names = append(names, whole)
		if below, err := filepath.Rel(workspace, whole); err == nil {
			names = append(names, below)
		}
	}
	return names
}
