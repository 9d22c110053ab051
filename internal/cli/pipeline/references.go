package pipeline

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// mostMissing is how many references are told of that lead to nothing.
const mostMissing = 10

// warnMissing says which inputs and artifacts the manifests of a pipeline name that there
// cannot be. It is a warning, for the expression may be evaluated nowhere; else it fails on a
// host, long after the release.
func warnMissing(w io.Writer, d *definition.Definition, files work.Carried, r pipeline.Release) {
	var told []string
	evaluator := expression.Over(files.Files())
	d.Manifests(func(_ string, name *string) {
		for _, p := range manifest.Paths(manifest.Source{Name: *name, Data: files[*name]}, evaluator, "inputs", "artifacts") {
			why := ""
			if p.Name == "inputs" {
				why = missing(d, p.Keys, r)
			} else {
				why = missingArtifact(made(d), p.Keys[0], "pipeline "+d.Name)
			}
			text := fmt.Sprintf("%s: %s: %s", p.Position, p, why)
			if why != "" && !slices.Contains(told, text) {
				told = append(told, text)
			}
		}
	})
	more := max(0, len(told)-mostMissing)
	for _, text := range told[:len(told)-more] {
		fmt.Fprintf(w, "warning: %s; where it is evaluated, the step fails\n", output.InLine(text))
	}
	if more > 0 {
		fmt.Fprintf(w, "warning: %s more to what there is not\n", phrase.Count(more, "reference"))
	}
}

// missing is why there is nothing below keys of the inputs of a revision; "" where there may be.
func missing(d *definition.Definition, keys []string, r pipeline.Release) string {
	var names []string
	for _, n := range d.Needs() {
		names = append(names, n.Pipeline)
	}
	taken := slices.IndexFunc(r.Takes, func(in upstream.Input) bool { return in.Pipeline == keys[0] })
	switch {
	case len(names) == 0: // anybody may have a variable of that name
		return ""
	case !slices.Contains(names, keys[0]):
		return fmt.Sprintf("no stage of pipeline %s has the input %q%s", d.Name, keys[0], meant(keys[0], names))
	case len(keys) > 1 && keys[1] != "revision" && keys[1] != "artifacts":
		return fmt.Sprintf("of an input there are revision and artifacts, not %q", keys[1])
	case len(keys) > 2 && keys[1] == "artifacts" && taken >= 0:
		in := r.Takes[taken]
		return missingArtifact(slices.Sorted(maps.Keys(in.Artifacts)), keys[2], in.String())
	default:
		return ""
	}
}

// made are the kinds of artifacts that a pipeline makes; nil is that they are not known.
func made(d *definition.Definition) []string {
	kinds := []string{}
	for _, s := range d.Stages {
		switch {
		case s.Build == nil:
		case s.Build.Group != "" && len(s.Build.Packages) == 0:
			return nil
		default:
			kinds = slices.Concat(kinds, s.Build.Artifacts, s.Build.Packages)
		}
	}
	return kinds
}

// missingArtifact is why there is no artifact of a kind; "" where there may be.
func missingArtifact(kinds []string, kind, of string) string {
	switch {
	case kinds == nil, slices.Contains(kinds, kind):
		return ""
	case len(kinds) == 0:
		return fmt.Sprintf("%s has no artifact %q: it has none", of, kind)
	default:
		return fmt.Sprintf("%s has no artifact %q%s", of, kind, meant(kind, kinds))
	}
}

// meant is what was probably meant by a name, or else all that there are.
func meant(name string, known []string) string {
	if near := suggest.Closest(name, known); near != "" {
		return ": did you mean " + near + "?"
	}
	return ": there are " + phrase.First(known, mostMissing)
}
