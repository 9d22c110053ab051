package managed

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner/report"
)

// Runs are the runs of a log: of which manifest each was.
type Runs struct {
	of    map[string]owner
	files map[string]bool // that were applied, wherever the workspace was
	sent  map[string]bool // those whose manifests were sent, so that no file of them is here
}

// owner is a manifest in two forms: by its name, and by its files.
type owner struct{ named, filed string }

func ownerOf(o runs.Owner) owner {
	k := owner{filed: o.Workspace + "\x00" + strings.Join(o.Manifest, "\x00")}
	if o.Name != "" {
		k.named = o.Name
	}
	return k
}

// ReadRuns reads the runs of a log.
func ReadRuns(ctx context.Context, log deploylog.Log) (*Runs, error) {
	r := &Runs{of: map[string]owner{}, files: map[string]bool{}, sent: map[string]bool{}}
	for e, err := range log.Read(ctx, deploylog.Filter{Target: "run/", Name: string(report.RunStarted)}) {
		if err != nil {
			return nil, fmt.Errorf("reading of which manifests runs were: %w", err)
		}
		var said struct {
			Of      *runs.Owner     `json:"of"`
			Carries json.RawMessage `json:"carries"`
			Details struct {
				Workspace string `json:"workspace"`
			} `json:"details"`
		}
		if json.Unmarshal(e.Data, &said) != nil {
			continue
		}
		if said.Of == nil { // by a former version, or in a place
			_, files, _ := strings.Cut(string(e.Target), "/")
			said.Of = &runs.Owner{Manifest: slices.Sorted(slices.Values(strings.Split(files, "+"))), Workspace: said.Details.Workspace}
		}
		r.of[e.Deployment] = ownerOf(*said.Of)
		for _, file := range said.Of.Manifest {
			if !filepath.IsAbs(file) {
				file = filepath.Join(said.Of.Workspace, file)
			}
			r.files[file] = true
		}
		if len(said.Carries) > 0 && string(said.Carries) != "null" {
			r.sent[e.Deployment] = true
		}
	}
	return r, nil
}

// of is a resource of a manifest, by one form of that.
type of struct{ manifest, resource string }

// see finds out what runs found of things last.
func (r *Runs) see(ctx context.Context, log deploylog.Log, things []*Thing) error {
	wanted := make(map[string]bool, len(things))
	for _, t := range things {
		wanted[t.Name] = true
	}
	last := map[of]Seen{}
	for _, name := range []string{string(report.ResourceFinished), string(report.ResourceFailed), "resource-lost"} {
		for e, err := range log.Read(ctx, deploylog.Filter{Target: "resource/", Name: name}) {
			if err != nil {
				return fmt.Errorf("reading how runs found what they made: %w", err)
			}
			resource := strings.TrimPrefix(string(e.Target), "resource/")
			by, known := r.of[e.Deployment]
			if !known || !wanted[resource] {
				continue
			}
			seen := Seen{Verdict: verdict(e), Run: e.Deployment, At: e.CreatedAt, seq: e.Seq}
			for _, manifest := range []string{by.named, by.filed} {
				at := of{manifest, resource}
				if manifest != "" && last[at].seq < e.Seq {
					last[at] = seen
				}
			}
		}
	}
	for _, t := range things {
		by := ownerOf(t.Owner())
		for _, manifest := range []string{by.named, by.filed} {
			if seen := last[of{manifest, t.Name}]; manifest != "" && !t.Deposed && seen.seq > t.Seen.seq {
				t.Seen = seen
			}
		}
	}
	return nil
}

// verdict is what the end of a resource in a run says.
func verdict(e deploylog.Event) Verdict {
	switch e.Name {
	case string(report.ResourceFailed):
		return Failed
	case "resource-lost":
		return Uncertain
	}
	var said struct {
		Status report.Status `json:"status"`
	}
	_ = json.Unmarshal(e.Data, &said) // what says nothing was as configured
	switch said.Status {
	case report.Changed:
		return Changed
	case report.Absent, report.Destroyed:
		return Removed
	default:
		return AsConfigured
	}
}
