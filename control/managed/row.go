package managed

import (
	"fmt"
	"strings"
	"time"
)

// Row is a Thing as programs see it. Fields are only ever added.
type Row struct {
	Manifest  string            `json:"manifest" doc:"Its name, else its files."`
	Files     []string          `json:"files" doc:"Of the manifest, below the workspace."`
	Name      string            `json:"manifest_name,omitempty" doc:"That the manifest says it has."`
	Workspace string            `json:"workspace"`
	Machine   string            `json:"machine,omitempty" doc:"On which the run was."`
	Resource  string            `json:"resource"`
	Type      string            `json:"type"`
	Thing     string            `json:"thing,omitempty" doc:"Its id within the log, where that is not the name of its resource."`
	Identity  string            `json:"identity,omitempty" doc:"What identifies it in the world, as text."`
	Parts     map[string]string `json:"identity_parts,omitempty"`
	MadeBy    string            `json:"made_by" doc:"The run that made it last, or adopted it."`
	MadeAt    time.Time         `json:"made_at"`
	Verdict   Verdict           `json:"verdict,omitempty" doc:"Of the last run that came to it: as-configured, changed, failed, removed or unknown; missing where none is known."`
	VerdictBy string            `json:"verdict_by,omitempty" doc:"That run."`
	VerdictAt *time.Time        `json:"verdict_at,omitempty"`
	Standing  Standing          `json:"standing" doc:"declared, undeclared, manifest-gone or replaced."`
	Orphan    bool              `json:"orphan" doc:"Nothing declares it."`
	RenamedTo string            `json:"renamed_to,omitempty" doc:"The file that may be its manifest under another name, where that is gone."`
}

// Row returns the thing as a row.
func (t *Thing) Row() Row {
	r := Row{
		Manifest: t.Owner().String(), Files: t.Manifest, Name: t.ManifestName, Workspace: t.Workspace, Machine: t.Machine,
		Resource: t.Name, Type: t.Type, Thing: t.ID, MadeBy: t.Run, MadeAt: t.At.UTC(), Standing: t.Standing, Orphan: t.Standing.Orphan(), RenamedTo: t.RenamedTo,
	}
	if t.Identity != nil {
		r.Identity, r.Parts = t.Identity.Text(), t.Identity.Parts
	}
	if t.Seen.Run != "" {
		at := t.Seen.At.UTC()
		r.Verdict, r.VerdictBy, r.VerdictAt = t.Seen.Verdict, t.Seen.Run, &at
	}
	return r
}

// Rows are things as rows.
func Rows(things []*Thing) []Row {
	rows := make([]Row, 0, len(things))
	for _, t := range things {
		rows = append(rows, t.Row())
	}
	return rows
}

// Key tells the row from others, and sorts it.
func (r Row) Key() string {
	at := fmt.Sprint(r.MadeAt.UnixNano())
	return strings.Join([]string{r.Manifest, r.Workspace, r.Resource, at, r.Thing, r.Identity}, "\x00")
}

func (t *Thing) key() string { return t.Row().Key() }

// Text is whether anything declares it, for people.
func (r Row) Text() string {
	switch r.Standing {
	case Declared:
		return "yes"
	case Gone:
		if r.RenamedTo != "" {
			return "no: manifest gone, perhaps " + r.RenamedTo
		}
		return "no: manifest gone"
	case Replaced:
		return "no: the old thing of " + r.Resource
	default:
		return "no"
	}
}
