package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/invoke"
)

// ImagesName is the name of the images among what a revision carries; see VariablesName.
const ImagesName = "/images"

// imagesVersion is that of the form in which images are carried.
const imagesVersion = 1

// imageTimeout is how long an engine may take to get an image that is to be carried.
const imageTimeout = 10 * time.Minute

// CarriedImage is the image of a resource type, as a manifest names it, with its content.
type CarriedImage struct {
	Image    string `json:"image"`
	ID       string `json:"id,omitempty"`       // of its content in the engine that was asked
	Digest   string `json:"digest,omitempty"`   // of its content in a registry, if it was ever in one
	Unpinned string `json:"unpinned,omitempty"` // why its content is not known: it is what its name means wherever it is used
}

// Described says in words which content it is.
func (i CarriedImage) Described() string {
	switch {
	case i.Unpinned != "":
		return "is unpinned: " + i.Unpinned
	case i.Digest != "":
		return i.Digest
	default:
		return i.ID + ", of no registry"
	}
}

type carriedImages struct {
	Version int            `json:"version"`
	Images  []CarriedImage `json:"images"` // sorted
}

// Images are those that a revision carries, nil of one that carries none because an older
// version made it.
func (t Texts) Images(files map[string]string) ([]CarriedImage, error) {
	digest, carried := files[ImagesName]
	if !carried {
		return nil, nil
	}
	var c carriedImages
	text, err := t.Load(digest)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("images: %w", err)
	case c.Version > imagesVersion:
		return nil, fmt.Errorf("images: they have the form %d, which this version does not know: use a newer one", c.Version)
	}
	return append([]CarriedImage{}, c.Images...), nil
}

// PinImages lets a collection carry the images of the resource types in its manifests, as
// the engine of the first host of each manifest that answers has or gets them: that of the
// default where there are no hosts. Types that ship are those of the version that applies
// them. An image that cannot be had is refused, unless it may be unpinned.
func (c *Collection) PinImages(ctx context.Context, pool *EnginePool, policy engine.PullPolicy, hosts func(manifest string) ([]string, error), unpinned bool) error {
	known := map[string]CarriedImage{}
	engines := newSearch(pool)
	var problems []manifest.Problem
	for _, source := range c.manifests {
		m, err := manifest.Outline(source)
		if err != nil {
			return &InputError{err}
		}
		for _, r := range m.Resources {
			if _, resolved := known[r.Type]; resolved || ships(r.Type) {
				continue
			}
			on, err := hosts(source.Name)
			if err != nil {
				return err
			}
			image, err := engines.resolve(ctx, on, r.Type, policy)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				image.Unpinned = strings.Join(strings.Fields(err.Error()), " ")
				if !unpinned {
					problems = append(problems, manifest.Problem{Position: r.Position, Path: "resources." + r.Name + ".type", Message: fmt.Sprintf(
						"which content image %s has cannot be found out, so a revision cannot carry it: %s; make it available, or say --allow-unpinned to use whatever it is on each host", r.Type, image.Unpinned)})
				}
			}
			known[r.Type] = image
		}
	}
	if len(problems) > 0 {
		return &InputError{&manifest.Error{Problems: problems}}
	}
	list := carriedImages{Version: imagesVersion, Images: []CarriedImage{}}
	for _, ref := range slices.Sorted(maps.Keys(known)) {
		list.Images = append(list.Images, known[ref])
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(list); err != nil {
		return fmt.Errorf("images: %w", err)
	}
	c.Files[ImagesName] = out.Bytes()
	return nil
}

// ships reports whether a type is one that ships.
func ships(typ string) bool {
	name, prefixed := strings.CutPrefix(typ, shipped.Prefix)
	_, known := shipped.Lookup(name)
	return prefixed && known
}

// resolve finds the content of an image on the first of the hosts that answers.
func (s *search) resolve(ctx context.Context, hosts []string, ref string, policy engine.PullPolicy) (CarriedImage, error) {
	_, on, err := s.first(ctx, hosts)
	if err != nil {
		return CarriedImage{Image: ref}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, imageTimeout, fmt.Errorf("no answer within %s", imageTimeout))
	defer cancel()
	image, err := on.Images.Image(ctx, ref, policy, nil)
	if err == nil && image.ID == "" {
		err = errors.New("the engine does not say which content it has")
	}
	return CarriedImage{Image: ref, ID: image.ID, Digest: image.Digest}, err
}

// pinned are images whose contents are those that a revision carries.
type pinned struct {
	invoke.Images
	carried []CarriedImage
}

// Image implements invoke.Images.
func (p pinned) Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error) {
	i := slices.IndexFunc(p.carried, func(c CarriedImage) bool { return c.Image == ref && c.Unpinned == "" })
	if i < 0 {
		return p.Images.Image(ctx, ref, policy, progress)
	}
	pin := p.carried[i]
	if policy == engine.PullAlways {
		policy = engine.PullMissing // its content does not change
	}
	image, err := p.held(ctx, pin)
	switch {
	case errors.Is(err, engine.ErrNoImage) && pin.Digest != "":
		image, err = p.Images.Image(ctx, at(ref, pin.Digest), policy, progress)
	case errors.Is(err, engine.ErrNoImage):
		image, err = p.Images.Image(ctx, ref, policy, progress)
		if err == nil && image.ID != pin.ID {
			return engine.Image{}, fmt.Errorf("on this engine it is %s, and the revision carries %s: load that, or make a new revision", image.ID, pin.ID)
		}
	}
	if errors.Is(err, engine.ErrNoImage) {
		return engine.Image{}, fmt.Errorf("the revision carries %s, which is not to be had: %w; push or load it again, or make a new revision", pin.Described(), err)
	}
	image.Ref = ref
	return image, err
}

// held is the image with the content that a revision carries where the engine holds it,
// whatever it is called there by now.
func (p pinned) held(ctx context.Context, pin CarriedImage) (engine.Image, error) {
	if pin.Digest != "" {
		image, err := p.Images.Image(ctx, at(pin.Image, pin.Digest), engine.PullNever, nil)
		if !errors.Is(err, engine.ErrNoImage) {
			return image, err
		}
	}
	return p.Images.Image(ctx, pin.ID, engine.PullNever, nil)
}

// at is an image with a digest instead of a tag.
func at(ref, digest string) string {
	name, _, _ := strings.Cut(ref, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	return name + "@" + digest
}
