package proposal

import (
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/encoding"
)

// Run is a run of manifests that a server is asked for. What these say, what they include, and
// the variables are kept before, as objects.
type Run struct {
	Manifests []string          `json:"manifests,omitempty" maxItems:"100" doc:"Paths below the workspace, in the order in which they are merged; none only with orphans."`
	Carries   map[string]string `json:"carries,omitempty" doc:"SHA-256 of each manifest and of each file that these include, by path, and of the variables, as /variables."`
	Destroy   bool              `json:"destroy,omitempty" doc:"Remove what the manifests declare instead of applying it."`
	Orphans   bool              `json:"orphans,omitempty" doc:"Of a removal: what no manifest declares any more, instead of what manifests declare."`
	Targets   []string          `json:"targets,omitempty" maxItems:"10000" doc:"Only these resources and what they depend on, or, to be removed, what depends on them; all where there are none."`
	Replace   []string          `json:"replace,omitempty" maxItems:"10000" doc:"Resources that are removed first, and then made again."`
	Prune     bool              `json:"prune,omitempty" doc:"Remove what runs of the manifests made and these no longer declare, once the rest is applied, or before it is removed."`
	KeepGoing bool              `json:"keep_going,omitempty" doc:"After a failure, go on with what does not depend on it."`
	Verbose   bool              `json:"verbose,omitempty" doc:"Ask resource types to be verbose."`
	Plan      string            `json:"plan,omitempty" maxLength:"64" doc:"Id of a plan of the same, which the server still has: what is not as planned is refused."`
	Saved     string            `json:"saved,omitempty" pattern:"^[0-9a-f]{64}$" doc:"SHA-256 of a saved plan, which is kept before, as an object: what is not as planned is refused."`
	Again     bool              `json:"again,omitempty" doc:"Do the saved plan from its beginning, although runs did it, or a part of it."`
}

// Begun is a run that a server has begun.
type Begun struct {
	Run    string `json:"run"`
	Target string `json:"target"`
}

// Observed is what is observed of a run, in the order in which it happens, and in the end how it ended.
type Observed struct {
	N      int64         `json:"n"` // the next ones have greater numbers
	Event  encoding.Line `json:"event"`
	Notice string        `json:"notice,omitempty"` // a sentence for people, in the place of an event
	End    *End          `json:"end,omitempty"`    // of the last one, which has nothing else
}

// End is how a run ended.
type End struct {
	Outcome  string             `json:"outcome"`            // succeeded, failed, refused, interrupted or nothing
	Error    string             `json:"error,omitempty"`    // why, where the events do not say it
	Problems []manifest.Problem `json:"problems,omitempty"` // the same of what is wrong with the manifests
}
