package submission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/build/plan"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/internal/contents"
	"github.com/deployster-go/deployster/internal/phrase"
)

// Plugged is a plug whose content is known, which is part of what goes into the jobs that see it.
type Plugged struct {
	Path string `json:"path"`
	contents.Content
}

// plugged is what is at the path of a plug, or why that is not known.
type plugged struct {
	contents.Content
	err error
}

// readPlugs finds out what the read-only plugs of jobs hold.
func (s *collecting) readPlugs(p *plan.Plan) error {
	if s.plugs == nil {
		s.plugs = map[string]plugged{}
	}
	done := map[*recipe.Recipe]bool{}
	for _, j := range p.Jobs {
		r := s.jobs[j.Package].recipe
		if s.Contents == nil || done[r] || r.Reuse == recipe.ReuseNever {
			continue
		}
		done[r] = true
		for i := range r.Plugs {
			plug := &r.Plugs[i]
			if !plug.ReadOnly || plug.Path == "" {
				continue
			}
			known, is := s.plugs[plug.Path]
			if !is {
				known.Content, known.err = s.Contents.Of(s.ctx, plug.Path)
				if s.ctx.Err() != nil {
					return context.Cause(s.ctx)
				}
				s.plugs[plug.Path] = known
			}
			plug.Content = known.Hash
		}
	}
	return nil
}

// unknownPlug is a plug whose content is not known.
type unknownPlug struct{ path, why string }

// tellPlugs says what the plugs of the jobs hold, and warns of those of which that is not known.
func (s *collecting) tellPlugs(p *plan.Plan) {
	const named = 5
	known := map[string]Plugged{}
	of := map[unknownPlug][]string{} // jobs
	var order []unknownPlug
	for _, j := range p.Jobs {
		r := s.jobs[j.Package].recipe
		for _, plug := range r.Plugs {
			if plug.Content != "" {
				known[plug.Path] = Plugged{plug.Path, s.plugs[plug.Path].Content}
			}
			if plug.Content != "" || r.Reuse != "" {
				continue
			}
			u := unknownPlug{plug.Path, s.unknown(plug)}
			if of[u] == nil {
				order = append(order, u)
			}
			if !slices.Contains(of[u], j.Package) {
				of[u] = append(of[u], j.Package)
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(known)) {
		s.out.Plugs = append(s.out.Plugs, known[path])
	}
	for _, u := range order {
		slices.Sort(of[u])
		s.out.Warnings = append(s.out.Warnings, fmt.Sprintf("plug %s: %s, so %s (%s) %s built again in each group: say reuse: true if the plug does not change what is built, or reuse: false if it does",
			u.path, u.why, phrase.Count(len(of[u]), "job"), phrase.First(of[u], named), map[bool]string{true: "is", false: "are"}[len(of[u]) == 1]))
	}
}

// unknown is why the content of a plug is not known.
func (s *collecting) unknown(plug recipe.Plug) string {
	switch {
	case !plug.ReadOnly:
		return "it is writable"
	case s.Contents == nil:
		return "it is on a worker of the server"
	default:
		return strings.Join(strings.Fields(s.plugs[plug.Path].err.Error()), " ")
	}
}
