package work

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/invoke"
)

// AskActions asks types, with the contents that are carried, which images they name for their
// own actions. It returns these by resource, and why a type could not be asked.
type AskActions func(ctx context.Context, on *Connection, m *manifest.Manifest, resources []string, carried []revision.Image) (map[string][]string, map[string]error)

// actions finds the images that types name for their own actions: of types that base carries
// those of base, where that has any, and else what they answer on the first host that answers.
func (p *imagePins) actions(m *manifest.Manifest, places func() ([]*Place, error)) error {
	ask := p.unknown(m)
	if len(ask) == 0 {
		return nil
	}
	at, err := places()
	if err != nil {
		return err
	}
	_, on, err := p.engines.First(p.ctx, hostsOf(at))
	if err != nil && p.base == nil {
		return err // it answered just now
	} else if err != nil {
		p.list.Actions = false // base has the contents of types, so none was asked yet: it stays as it was
		return nil
	}
	carried := []revision.Image{}
	for _, i := range p.known {
		carried = append(carried, i)
	}
	named, failed := p.Ask(p.ctx, on, m, ask, carried)
	for _, name := range ask {
		r := m.Resource(name)
		path := "resources." + name + ".type"
		if err := failed[name]; err != nil && !p.Unpinned {
			p.problems = append(p.problems, manifest.Problem{Position: r.Position, Path: path, Message: fmt.Sprintf(
				"which images the actions of %s run cannot be found out, so a revision cannot carry them: %s; mend that, or say --allow-unpinned to use whatever they are on each host", r.Type, strings.Join(strings.Fields(err.Error()), " "))})
		}
		for _, ref := range named[name] {
			if !revision.IsContent(ref) && !p.has(ref) {
				image, err := p.content(on.Images, ref)
				p.note(image, err, r.Position, path)
			}
			if image, known := p.known[ref]; known && !slices.Contains(image.For, r.Type) {
				image.For = append(slices.Clone(image.For), r.Type)
				p.known[ref] = image
			}
		}
	}
	return nil
}

// unknown are the resources whose types are to be asked, and have contents to ask. Of others it
// is noted what base carries.
func (p *imagePins) unknown(m *manifest.Manifest) (ask []string) {
	for _, r := range m.Resources {
		switch {
		case ships(r.Type):
		case p.base.Holds(r.Type) && p.base.Actions:
			p.list.Unpinned = cmp.Or(p.list.Unpinned, p.base.Unpinned)
			for _, i := range p.base.Of(r.Type) {
				p.known[i.Image] = i
			}
		case p.Ask == nil:
			p.list.Actions = false
		default:
			if ask = append(ask, r.Name); p.Unpinned {
				p.list.Unpinned = cmp.Or(p.list.Unpinned, "--allow-unpinned was given")
			}
		}
	}
	return slices.DeleteFunc(ask, func(name string) bool { return p.known[m.Resource(name).Type].Unpinned != "" })
}

// pinned makes images available with the contents that the revision of the input carries.
func (in *Input) pinned(on invoke.Images) revision.Pinned {
	p := revision.Pinned{Holder: on, Carried: in.images.List(), Carrier: "the revision", Anew: "make a new revision"}
	if in.applies {
		p.Refuse = func(ref string) error {
			if ships(ref) {
				return nil
			}
			return in.images.RefuseAction(ref)
		}
	}
	return p
}
