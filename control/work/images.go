package work

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deployster-go/deployster/control/reachable"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/invoke"
)

// imageTimeout is how long an engine may take to get an image that is to be carried.
const imageTimeout = 10 * time.Minute

// Images are those that a revision carries, nil of one that carries none because an older
// version made it.
func (t Texts) Images(files map[string]string) ([]revision.Image, error) {
	c, err := t.images(files)
	if c == nil || err != nil {
		return nil, err
	}
	return append([]revision.Image{}, c.Shown()...), nil
}

func (t Texts) images(files map[string]string) (*revision.Images, error) {
	digest, carried := files[revision.ImagesName]
	if !carried {
		return nil, nil
	}
	text, err := t.Load(digest)
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	return revision.DecodeImages(text)
}

// PinImages lets a collection carry the images of its manifests; see Carried.PinImages.
func (c *Collection) PinImages(ctx context.Context, p ImagePinning) error {
	return c.Files.PinImages(ctx, p, c.manifests...)
}

// ImagePinning is how images become what a revision carries.
type ImagePinning struct {
	Pool     *EnginePool
	Policy   engine.PullPolicy
	Unpinned bool                                   // an image that cannot be had is carried as whatever it is
	Base     []byte                                 // what another revision carries under revision.ImagesName: such an image is not looked for; may be nil
	Places   func(manifest string) ([]Place, error) // where a manifest is applied
	Ask      AskActions                             // nil: what types name for their own actions is not carried
}

// PinImages makes the images of manifests a part of what is carried: those of their resource
// types, as the engine of the first host of each manifest that answers has or gets them, that
// of the default where there are no hosts; and those that configurations of types that ship
// name. The types that ship are those of the version that applies them. An image that cannot
// be had is refused, unless it may be unpinned.
func (c Carried) PinImages(ctx context.Context, p ImagePinning, manifests ...manifest.Source) error {
	pins := imagePins{ImagePinning: p, ctx: ctx, engines: p.Pool.search(), known: map[string]revision.Image{}, daemons: map[string]*Connection{}}
	defer pins.close()
	if p.Base != nil {
		base, err := revision.DecodeImages(p.Base)
		if err != nil {
			return err
		}
		pins.base = base
	}
	pins.list = revision.Images{Configured: true, Actions: true, Images: []revision.Image{}}
	for _, source := range manifests {
		if err := pins.manifest(source, expression.Over(c.Files())); err != nil {
			return err
		}
	}
	if len(pins.problems) > 0 {
		return &InputError{&manifest.Error{Problems: pins.problems}}
	}
	list := pins.list
	for _, ref := range slices.Sorted(maps.Keys(pins.known)) {
		list.Images = append(list.Images, pins.known[ref])
	}
	text, err := list.Encode()
	if err != nil {
		return fmt.Errorf("images: %w", err)
	}
	c[revision.ImagesName] = text
	return nil
}

// imagePins are images with the contents that were found so far.
type imagePins struct {
	ImagePinning
	ctx      context.Context
	engines  *reachable.Search[*Connection]
	base     *revision.Images
	list     revision.Images // what is said of all of them
	known    map[string]revision.Image
	problems []manifest.Problem
	daemons  map[string]*Connection // Docker Engines of this machine, by the paths of their sockets
}

// manifest finds the images of a manifest.
func (p *imagePins) manifest(source manifest.Source, e *expression.Evaluator) error {
	m, err := manifest.Outline(source, e)
	if err != nil {
		return &InputError{err}
	}
	places := sync.OnceValues(func() ([]*Place, error) { return p.places(source.Name) })
	for _, r := range m.Resources {
		switch {
		case !ships(r.Type) && !p.has(r.Type):
			on, err := places()
			if err != nil {
				return err
			}
			image, err := p.resolve(hostsOf(on), r.Type)
			p.note(image, err, r.Position, "resources."+r.Name+".type")
		case ships(r.Type):
			if err := p.configured(r, places); err != nil {
				return err
			}
		}
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
	}
	return p.actions(m, places)
}

// has reports whether the content of an image need not be looked for.
func (p *imagePins) has(ref string) bool {
	if _, known := p.known[ref]; known {
		return true
	}
	i := slices.IndexFunc(p.base.List(), func(c revision.Image) bool { return c.Image == ref })
	if i >= 0 {
		p.known[ref] = p.base.Images[i]
	}
	return i >= 0
}

// note adds an image, or why its content is not known.
func (p *imagePins) note(image revision.Image, err error, at manifest.Position, path string) {
	if err != nil {
		image.ID, image.Digest, image.Unpinned = "", "", strings.Join(strings.Fields(err.Error()), " ")
		if !p.Unpinned {
			p.problems = append(p.problems, manifest.Problem{Position: at, Path: path, Message: fmt.Sprintf(
				"which content image %s has cannot be found out, so a revision cannot carry it: %s; make it available, or say --allow-unpinned to use whatever it is on each host", image.Image, image.Unpinned)})
		}
	}
	p.known[image.Image] = image
}

// ships reports whether a type is one that ships.
func ships(typ string) bool {
	name, prefixed := strings.CutPrefix(typ, shipped.Prefix)
	_, known := shipped.Lookup(name)
	return prefixed && known
}

// resolve finds the content of an image on the first of the hosts that answers.
func (p *imagePins) resolve(hosts []string, ref string) (revision.Image, error) {
	_, on, err := p.engines.First(p.ctx, hosts)
	if err != nil {
		return revision.Image{Image: ref}, err
	}
	return p.content(on.Images, ref)
}

// content is that of an image in an engine.
func (p *imagePins) content(images invoke.Images, ref string) (revision.Image, error) {
	ctx, cancel := context.WithTimeoutCause(p.ctx, imageTimeout, fmt.Errorf("no answer within %s", imageTimeout))
	defer cancel()
	image, err := images.Image(ctx, ref, p.Policy, nil)
	if err == nil && image.ID == "" {
		err = errors.New("the engine does not say which content it has")
	}
	return revision.Image{Image: ref, ID: image.ID, Digest: image.Digest}, err
}
