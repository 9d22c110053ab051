package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/deployster-go/deployster/build/record"
)

// inputs is what identifies the work of a job. Fields are only ever added, with omitempty:
// a hash of today must be that of the same work tomorrow.
type inputs struct {
	Version  int               `json:"version"`
	Package  string            `json:"package"`
	Release  string            `json:"release,omitempty"`
	Platform string            `json:"platform"`
	Image    string            `json:"image"`
	Never    string            `json:"never,omitempty"`
	Program  string            `json:"entrypoint,omitempty"`
	Args     []string          `json:"args,omitzero"`
	Env      map[string]string `json:"env,omitempty"`
	Secrets  map[string]Secret `json:"secrets,omitempty"`
	Sources  string            `json:"sources,omitempty"`
	Plugs    []Plug            `json:"plugs,omitempty"`
	Network  string            `json:"network,omitempty"`
	Uses     []use             `json:"uses,omitempty"`
}

type use struct {
	Package  string `json:"package"`
	Artifact string `json:"artifact,omitempty"`
	Made     bool   `json:"made,omitempty"` // by another job of the group
	Run      bool   `json:"run,omitempty"`
}

// Reusable reports whether jobs that run the recipe may use what those of other groups have built, as far as that does
// not depend on the image.
func (r Recipe) Reusable() bool {
	return r.Reuse == ReuseAlways || r.Reuse != ReuseNever && !slices.ContainsFunc(r.Plugs, func(p Plug) bool { return p.Content == "" })
}

// Inputs identifies all that goes into a job that runs the recipe on a platform, but for
// what other jobs of its group build: two jobs for which it is the same do the same. The
// values of secrets, the bounds of time and memory and who does it are not part of it. If the content
// of an image or of a plug is not known, nobody can say whether it is the same; own tells such
// jobs from those of all other groups.
func (r Recipe) Inputs(job record.JobSpec, platform, own string) string {
	in := inputs{
		Version: version, Package: job.Package, Release: job.Version, Platform: platform,
		Image: r.Image.ID, Program: r.Entrypoint, Args: r.Args,
		Env: r.Env, Secrets: r.Secrets, Sources: r.Artifact, Plugs: r.Plugs, Network: r.Network,
	}
	switch {
	case r.Image.Unpinned == "" && r.Image.ID == "" && r.Image.Digest != "":
		in.Image = r.Image.Digest
	case r.Image.Unpinned != "" || r.Image.ID == "":
		in.Image, in.Never = r.Image.Image, own
	}
	if !r.Reusable() {
		in.Never = own
	}
	for _, u := range job.Uses {
		in.Uses = append(in.Uses, use{u.Package, u.Artifact, u.Job > 0, u.Run})
	}
	text, err := json.Marshal(in)
	if err != nil {
		panic(err) // texts and numbers have a form
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
