package planfile

import (
	"time"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

// document is the file as JSON; see the schema "plan".
type document struct {
	Format       string            `json:"format"`
	Version      int               `json:"version"`
	Digest       string            `json:"digest"`
	CreatedAt    time.Time         `json:"created_at"`
	Deployster   string            `json:"deployster"`
	Salt         Salt              `json:"salt"`
	Run          string            `json:"run"`
	Engine       Engine            `json:"engine"`
	Server       string            `json:"server,omitempty"`
	Log          *Log              `json:"log,omitempty"`
	Manifests    []string          `json:"manifests"`
	ManifestHash string            `json:"manifest_hash"`
	Definitions  map[string]string `json:"definitions"`
	Includes     map[string]string `json:"includes,omitzero"`
	Targets      []string          `json:"targets,omitempty"`
	Variables    variables         `json:"variables"`
	Resources    []resource        `json:"resources"`
}

type variables struct {
	Given  []Variable        `json:"given,omitempty"`
	Hashes map[string]string `json:"hashes,omitempty"`
}

type resource struct {
	Name        string            `json:"name"`
	Type        string            `json:"type"`
	ImageID     string            `json:"image_id"`
	ImageDigest string            `json:"image_digest,omitempty"`
	DependsOn   []string          `json:"depends_on,omitempty"`
	Of          string            `json:"of,omitempty"`
	Late        bool              `json:"late,omitempty"`
	Status      report.Status     `json:"status"`
	After       []string          `json:"after,omitempty"`
	Tentative   report.Status     `json:"tentative,omitempty"`
	ReadOnly    bool              `json:"read_only,omitempty"`
	Exists      bool              `json:"exists,omitempty"`
	Replace     bool              `json:"replace,omitempty"`
	MadeBy      string            `json:"made_by,omitempty"`
	From        string            `json:"from,omitempty"`
	Replaces    string            `json:"replaces,omitempty"`
	Deposed     string            `json:"deposed,omitempty"`
	Config      map[string]any    `json:"config,omitzero"`
	ConfigHash  string            `json:"config_hash,omitempty"`
	State       map[string]any    `json:"state,omitzero"`
	StateHash   string            `json:"state_hash,omitempty"`
	Diff        []change          `json:"diff,omitempty"`
	Actions     []protocol.Action `json:"actions,omitempty"`
	ActionsHash string            `json:"actions_hash,omitempty"`
	KeptHash    string            `json:"kept_hash,omitempty"`
}

type change struct {
	Path string  `json:"path"`
	Op   diff.Op `json:"op"`
	Old  any     `json:"old,omitempty"`
	New  any     `json:"new,omitempty"`
}

func (f *File) document() document {
	d := document{
		Format: format, Version: Version, CreatedAt: f.CreatedAt, Deployster: f.Deployster, Salt: f.Salt, Run: f.Run, Engine: f.Engine, Server: f.Server,
		Manifests: f.Manifests, ManifestHash: f.ManifestHash, Definitions: f.Definitions, Includes: f.Includes, Targets: f.Targets,
		Variables: variables{f.Given, f.Variables}, Resources: make([]resource, len(f.Resources)),
	}
	for i, r := range f.Resources {
		d.Resources[i] = rowOf(r)
	}
	if d.Log = &f.Log; f.Log.ID == "" {
		d.Version, d.Log = unlogged, nil
	}
	return d
}

func rowOf(r report.ResourcePlan) resource {
	row := resource{
		Name: r.Name, Type: r.Type, ImageID: r.ImageID, ImageDigest: r.ImageDigest, DependsOn: r.DependsOn, Of: r.Of, Late: r.Late,
		Status: r.Status, After: r.After, Tentative: r.Tentative, ReadOnly: r.ReadOnly, Exists: r.Exists, Replace: r.Replace, MadeBy: r.MadeBy, From: r.From, Replaces: r.Replaces, Deposed: r.Deposed,
		Config: r.Config, ConfigHash: r.ConfigHash, State: r.State, StateHash: r.StateHash,
		Actions: r.Actions, ActionsHash: r.ActionsHash, KeptHash: r.KeptHash,
	}
	for _, c := range r.Diff {
		row.Diff = append(row.Diff, change(c))
	}
	return row
}

func (d *document) file() *File {
	f := &File{
		Digest: d.Digest, CreatedAt: d.CreatedAt, Deployster: d.Deployster, Salt: d.Salt, Run: d.Run, Engine: d.Engine, Server: d.Server,
		Manifests: d.Manifests, ManifestHash: d.ManifestHash, Definitions: d.Definitions, Includes: d.Includes, Targets: d.Targets,
		Given: d.Variables.Given, Variables: d.Variables.Hashes,
	}
	if d.Log != nil {
		f.Log = *d.Log
	}
	for _, r := range d.Resources {
		f.Resources = append(f.Resources, r.plan())
	}
	return f
}

func (r *resource) plan() report.ResourcePlan {
	p := report.ResourcePlan{
		Name: r.Name, Type: r.Type, ImageID: r.ImageID, ImageDigest: r.ImageDigest, DependsOn: r.DependsOn, Of: r.Of, Late: r.Late,
		Status: r.Status, After: r.After, Tentative: r.Tentative, ReadOnly: r.ReadOnly, Exists: r.Exists, Replace: r.Replace, MadeBy: r.MadeBy, From: r.From, Replaces: r.Replaces, Deposed: r.Deposed,
		Config: object(r.Config), ConfigHash: r.ConfigHash, State: object(r.State), StateHash: r.StateHash,
		Actions: r.Actions, ActionsHash: r.ActionsHash, KeptHash: r.KeptHash,
	}
	p.Diff = plainChanges(r.Diff)
	return p
}
