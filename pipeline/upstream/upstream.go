// Package upstream decides which revisions of other pipelines a release takes.
//
// A release needs one revision of each of some pipelines, and for each there are candidates:
// those that have passed what they must have. A candidate was itself released with revisions
// of other pipelines, which its Inputs record, with all that those were released with. Where two
// of the revisions that a release takes lead to the same pipeline in this way, they must lead
// to the same revision of it: what was built with one version of a library does not go with
// what was tested with another. Choose finds the newest combination that agrees.
//
// Revisions are the same if their deployments are: a pipeline that was deleted may have
// released others by the same names.
package upstream

import (
	"maps"
	"slices"
	"strings"
)

// Release is a revision of a pipeline, and the deployment that its release began.
type Release struct {
	Pipeline   string `json:"pipeline"`
	Revision   string `json:"revision"`
	Deployment string `json:"deployment"`
}

// String is how people are told of it.
func (r Release) String() string { return r.Pipeline + " " + r.Revision }

// Input is a revision of another pipeline that a release takes, as it was then. Nothing that
// comes later changes it.
type Input struct {
	Release
	Passed    []string          `json:"passed,omitempty"`    // the stages that it had to have passed
	Finished  bool              `json:"finished,omitempty"`  // it had to have finished
	Artifacts map[string]string `json:"artifacts,omitempty"` // references, by kind
	Inputs    []Release         `json:"inputs,omitempty"`    // what it was released with, also through others; sorted by pipeline
	Bound     bool              `json:"bound,omitempty"`     // by who may bring no more than its pipeline names and allows
}

// Had says what the revision had to have passed.
func (in Input) Had() string {
	var parts []string
	if len(in.Passed) > 0 {
		parts = append(parts, "passed "+strings.Join(in.Passed, " and "))
	}
	if in.Finished {
		parts = append(parts, "finished")
	}
	return strings.Join(parts, ", and ")
}

// Closure is all that a release which takes these inputs was released with, but for other
// revisions of its own pipeline, to which some of them may lead since it was another one.
func Closure(own string, inputs []Input) []Release {
	all := map[string]Release{}
	for _, in := range inputs {
		for _, r := range append([]Release{in.Release}, in.Inputs...) {
			if r.Pipeline != own {
				all[r.Pipeline] = r
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Release) int { return strings.Compare(a.Pipeline, b.Pipeline) })
}

// Variables are what manifests know of the inputs: by the name of the pipeline, the revision
// and the references of its artifacts by kind. nil is a revision that takes none.
func Variables(inputs []Input) map[string]any {
	if len(inputs) == 0 {
		return nil
	}
	all := map[string]any{}
	for _, in := range inputs {
		refs := map[string]any{}
		for kind, ref := range in.Artifacts {
			refs[kind] = ref
		}
		all[in.Pipeline] = map[string]any{"revision": in.Revision, "artifacts": refs}
	}
	return all
}
