package pipeline

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// named are the revisions of other pipelines that somebody wants a release to take, by the
// name of the pipeline.
func named(inputs []string) (map[string]string, error) {
	all := map[string]string{}
	for _, text := range inputs {
		name, revision, ok := strings.Cut(text, "=")
		if !ok || name == "" || revision == "" {
			return nil, exit.Usage("--input %s: say PIPELINE=REVISION", text)
		}
		if other, twice := all[name]; twice {
			return nil, exit.Usage("--input %s: of pipeline %s there is %s already, and a revision takes one", text, name, other)
		}
		all[name] = revision
	}
	return all, nil
}

// take finds what a release takes of other pipelines, as of one event of the log.
func take(p *query.Pipelines, d *definition.Definition, inputs map[string]string) (taken []upstream.Input, chosen []upstream.Chosen, err error) {
	if d == nil {
		return nil, nil, nil // which the pipeline refuses itself
	}
	chosen, err = upstream.Take(d, inputs, p.Upstream)
	for _, c := range chosen {
		taken = append(taken, c.Input)
	}
	return taken, chosen, err
}

// noteNewer says which newer revisions are not taken, and why.
func noteNewer(w io.Writer, chosen []upstream.Chosen) {
	for _, c := range chosen {
		if c.Newer.Revision != "" {
			fmt.Fprintf(w, "note: %s is newer than %s, and not taken: %s\n", output.InLine(c.Newer.String()), output.InLine(c.String()), output.InLine(c.Why.String()))
		}
	}
}

// noteFailed says which of the revisions that are taken have failed, or were given up, behind
// what they had to have passed: somebody who rejects one further on need not want it elsewhere.
func noteFailed(w io.Writer, p *query.Pipelines, chosen []upstream.Chosen) {
	for _, c := range chosen {
		r, err := p.Release(c.Pipeline, c.Deployment)
		if err != nil || r.Status != deployment.Failed && r.Status != deployment.Cancelled {
			continue // one that was deleted since is told of by others
		}
		why := ""
		if text := r.Why(); text != "" {
			why = ": " + output.InLine(text)
		}
		fmt.Fprintf(w, "note: %s is taken, for it has %s, but it has %s since (event %d)%s; --input %s=REVISION takes another\n",
			output.InLine(c.String()), output.InLine(c.Had()), ended[r.Status], r.Since, why, output.InLine(c.Pipeline))
	}
}

var ended = map[deployment.Status]string{deployment.Failed: "failed", deployment.Cancelled: "been cancelled"}

// withoutInputs says of the revisions under way to which a definition brings inputs that they do
// not get them.
func withoutInputs(s *pipeline.State, d *definition.Definition) (all []string) {
	for _, r := range s.Registrations() {
		missing := upstream.Missing(d, r.Takes)
		if r.Status == deployment.Running && missing != "" && upstream.Missing(s.Definition(), r.Takes) == "" {
			all = append(all, fmt.Sprintf("revision %s keeps the inputs that it was released with: it takes %s", r.Revision, missing))
		}
	}
	return all
}

// noteTakers says which pipelines cannot release revisions any more, for they take those of
// one that was changed or deleted.
func noteTakers(w io.Writer, p *pipelines.Pipelines, name string) {
	for other, s := range p.All() {
		d := s.Definition()
		if d == nil || !slices.ContainsFunc(d.Needs(), func(n definition.Needed) bool { return n.Pipeline == name }) {
			continue
		}
		if err := upstream.Check(d, p.Upstream); err != nil {
			fmt.Fprintf(w, "note: no revision of pipeline %s can be released until its definition, or that of pipeline %s, is changed: %s\n", output.InLine(other), output.InLine(name), output.InLine(err.Error()))
		}
	}
}

// noteBehind notes stages that were added after the newest revision had finished, and how it is
// brought there.
func noteBehind(w io.Writer, p *pipelines.Pipelines, name string) {
	_ = p.Ask(name, func(s *pipeline.State) error { // it has just been defined
		for _, behind := range s.Behind() {
			fmt.Fprintf(w, "note: %s\n", output.InLine(behind))
		}
		return nil
	})
}

// withInputs adds what revisions take to rows of them, before the reason, which may be long.
func withInputs(rows [][]string, list []query.Release) {
	if !slices.ContainsFunc(list, func(r query.Release) bool { return len(r.Takes) > 0 }) {
		return
	}
	at := len(rows[0]) - 1
	rows[0] = slices.Insert(rows[0], at, "INPUTS")
	for i, r := range list {
		rows[i+1] = slices.Insert(rows[i+1], at, output.Dash(takenInLine(r.Takes)))
	}
}

// takenInLine are inputs in a few words.
func takenInLine(inputs []upstream.Input) string {
	var names []string
	for _, in := range inputs {
		names = append(names, in.String())
	}
	return output.InLine(strings.Join(names, ", "))
}

// takenText are inputs, each with all that is recorded of it, in lines of their own. All of
// that may be what somebody wrote into a log.
func takenText(inputs []upstream.Input) (text string) {
	for _, in := range inputs {
		text += fmt.Sprintf("  takes %s, which had %s\n", output.InLine(in.String()), output.InLine(in.Had()))
		for _, kind := range slices.Sorted(maps.Keys(in.Artifacts)) {
			text += fmt.Sprintf("    artifact %s %s\n", output.InLine(kind), output.InLine(in.Artifacts[kind]))
		}
		for _, r := range in.Inputs {
			text += fmt.Sprintf("    released with %s\n", output.InLine(r.String()))
		}
	}
	return text
}
