package work

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// dockerPlug is the plug through which types that ship reach a Docker Engine.
const dockerPlug = "docker"

// places are those where a manifest is applied, each of which is loaded once.
func (p *imagePins) places(manifest string) (all []*Place, err error) {
	found, err := p.Places(manifest)
	for _, one := range found {
		var in *Input
		var failed error
		loaded := false
		all = append(all, &Place{one.Host, func() (*Input, error) {
			if !loaded {
				loaded = true
				in, failed = one.Load()
			}
			return in, failed
		}})
	}
	return all, err
}

// imageProperty is the property of configurations of a type that names an image; "" is none.
func imageProperty(typ string) string {
	if !ships(typ) {
		return ""
	}
	t, _ := shipped.Lookup(strings.TrimPrefix(typ, shipped.Prefix))
	return t.Image
}

var errLate = errors.New("its name is known only where it is applied")

// configured finds the image that the configuration of a resource names, which may be
// another one at each place. It is what the Docker Engine behind the plug of the first place
// that answers has or gets under this name.
func (p *imagePins) configured(r *manifest.Resource, places func() ([]*Place, error)) error {
	property := imageProperty(r.Type)
	written, given := r.Config[property].(string)
	if property == "" || !given || revision.IsContent(written) {
		return nil
	}
	all, err := places()
	if err != nil {
		return err
	}
	at, path := r.At(property), r.Path(property)
	uses := map[string][]*Place{}
	for _, place := range all {
		refs, late := imagesAt(place, r, property)
		if late && !p.has(written) {
			p.late(written)
		}
		for _, ref := range refs {
			if !revision.IsContent(ref) {
				uses[ref] = append(uses[ref], place)
			}
		}
	}
	switch nowhere := len(all) == 0; { // a host may come later
	case nowhere && !expression.IsTemplate(written):
		uses[written] = nil
	case nowhere && !p.has(written):
		p.late(written)
	}
	for _, ref := range slices.Sorted(maps.Keys(uses)) {
		if p.has(ref) || p.ctx.Err() != nil {
			continue
		}
		image, err := p.behindPlug(uses[ref], r, ref)
		p.note(image, err, at, path)
	}
	return nil
}

// late adds an image whose name is known only where it is applied.
func (p *imagePins) late(written string) {
	image := revision.Image{Image: written, Late: true}
	if p.Unpinned {
		image = revision.Image{Image: written, Unpinned: errLate.Error()}
	}
	p.known[written] = image
}

// imagesAt are the images of a resource at a place, of all its instances; none where the
// manifest cannot be applied, or the resource has none there. late is that the name of one is
// known only where it is applied.
func imagesAt(place *Place, r *manifest.Resource, property string) (refs []string, late bool) {
	in, err := place.Load()
	if err != nil {
		return nil, false // what is wrong with it is said where it is applied
	}
	names, _ := in.Manifest.Named(r.Name)
	for _, name := range names {
		found := in.Manifest.Resource(name)
		value, err := found.Resolve(found.Config[property], manifest.Scope{Expressions: in.Expressions, Variables: in.Variables})
		if ref, _ := value.(string); err == nil && ref != "" && !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
		late = late || err != nil
	}
	return refs, late
}

// behindPlug finds the content of an image in the Docker Engine behind the plug of the first
// of the places that answers. That of an engine which sees the files of this machine is there
// at the path of the plug; of another one it is taken to be that engine itself.
func (p *imagePins) behindPlug(places []*Place, r *manifest.Resource, ref string) (revision.Image, error) {
	image := revision.Image{Image: ref}
	host, on, err := p.engines.First(p.ctx, hostsOf(places))
	if err != nil {
		return image, err
	}
	images := on.Images
	if i := slices.IndexFunc(places, func(place *Place) bool { return place.Host == host }); i >= 0 && !on.Info.Remote {
		in, err := places[i].Load()
		if err != nil {
			return image, err
		}
		if plug := dockerOf(in.Manifest, r); plug != nil {
			daemon, err := p.daemon(plug.Path)
			if err != nil {
				return image, fmt.Errorf("the Docker Engine behind the plug %q: %w", dockerPlug, err)
			}
			images = daemon.Images
		}
	}
	if image, err = p.content(images, ref); err != nil || image.Digest == "" {
		return image, err
	}
	// The digest may be that of another name of the same content, under which nobody gets it.
	if _, err := images.Image(p.ctx, revision.At(ref, image.Digest), engine.PullNever, nil); err != nil {
		image.Digest = ""
	}
	return image, nil
}

// dockerOf is the plug of the Docker Engine of a resource, as it is written; nil is none.
func dockerOf(m *manifest.Manifest, r *manifest.Resource) *manifest.Plug {
	names, _ := m.Named(r.Name)
	if len(names) == 0 {
		return nil
	}
	return m.Resource(names[0]).Plug(m, dockerPlug)
}

// daemon is the Docker Engine behind a socket of this machine.
func (p *imagePins) daemon(path string) (*Connection, error) {
	if on := p.daemons[path]; on != nil {
		return on, nil
	}
	on, err := p.Pool.dial(p.ctx, inventory.Host{Name: dockerPlug, Engine: inventory.Docker, Endpoint: "unix://" + path})
	if err == nil {
		p.daemons[path] = on
	}
	return on, err
}

func (p *imagePins) close() {
	for _, on := range p.daemons {
		_ = on.Engine.Close() // it was only asked
	}
}

// configure gives resources the images that a revision carries by their contents; nil where
// it carries none of configurations. One that it does not carry is refused where it would be
// applied: which content it has on a host is nothing that the revision says.
//
// Paths are of this machine if here.
func (in *Input) configure(here bool) runner.Configure {
	pin := in.pinConfigured()
	if in.bounds == nil {
		return pin
	}
	return func(r *manifest.Resource, config map[string]any) (map[string]any, error) {
		refused := in.bounds.refusal(func(b *bounds) []allow.Excess { return b.configured(r, config, in.Workspace) })
		if here && in.applies && refused == nil && ships(r.Type) { // what it made is removed without it
			refused = in.linked(config)
		}
		if refused != nil {
			return nil, &manifest.Error{Problems: []manifest.Problem{{Position: r.At(), Path: r.Path(), Message: in.Masked(refused).Error()}}}
		}
		if pin == nil {
			return config, nil
		}
		return pin(r, config)
	}
}

// linked refuses mounts through links that types may have made for other revisions: the engine would follow them.
func (in *Input) linked(config map[string]any) error {
	all, _ := mounted(config)
	for _, m := range all {
		_, err := engine.Finder{Written: in.written()}.Find(m.path)
		if link := new(engine.LinkError); errors.As(err, &link) {
			return fmt.Errorf("the mount of path %s leads through %s, a link that a type may have made in %s: name the path without the link", m.path, link.Link, link.Within)
		}
	}
	return nil
}

// pinConfigured is configure without regard to what the input may bring.
func (in *Input) pinConfigured() runner.Configure {
	if in.images == nil || !in.images.Configured {
		return nil
	}
	return func(r *manifest.Resource, config map[string]any) (map[string]any, error) {
		property := imageProperty(r.Type)
		ref, _ := config[property].(string)
		if property == "" || ref == "" || revision.IsContent(ref) {
			return config, nil
		}
		for _, name := range []string{ref, fmt.Sprint(r.Config[property])} {
			i := slices.IndexFunc(in.images.Images, func(c revision.Image) bool { return c.Image == name && !c.Late })
			switch {
			case i < 0:
			case in.images.Images[i].Unpinned != "":
				return config, nil
			case name == ref:
				pinned := maps.Clone(config)
				pinned[property] = in.images.Images[i].ByContent()
				return pinned, nil
			}
		}
		if !in.applies {
			return config, nil
		}
		return nil, &manifest.Error{Problems: []manifest.Problem{{Position: r.At(property), Path: r.Path(property), Message: fmt.Sprintf(
			"the revision does not carry which content image %s has: name it by its digest, as NAME@sha256:…, or make a new revision, with --allow-unpinned where whatever it is on each host will do", ref)}}}
	}
}
