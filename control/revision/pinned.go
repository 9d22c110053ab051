package revision

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/engine"
)

// Holder makes images available, as an engine does.
type Holder interface {
	Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error)
}

// Pinned makes images available with the contents that are carried, whatever their names mean
// by now.
type Pinned struct {
	Holder
	Carried []Image
	Carrier string // such as "the revision"
	Anew    string // what makes another one, such as "make a new revision"

	Refuse func(ref string) error // fails for an image that must be carried; may be nil
}

// Image is Holder.Image.
func (p Pinned) Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error) {
	i := slices.IndexFunc(p.Carried, func(c Image) bool { return c.Image == ref && c.Unpinned == "" && !c.Late })
	if i < 0 && p.Refuse != nil {
		if err := p.Refuse(ref); err != nil {
			return engine.Image{}, err
		}
	}
	if i < 0 {
		return p.Holder.Image(ctx, ref, policy, progress)
	}
	pin := p.Carried[i]
	if policy == engine.PullAlways {
		policy = engine.PullMissing // its content does not change
	}
	image, err := p.held(ctx, pin)
	switch {
	case errors.Is(err, engine.ErrNoImage) && pin.Digest != "":
		image, err = p.Holder.Image(ctx, At(ref, pin.Digest), policy, progress)
	case errors.Is(err, engine.ErrNoImage):
		image, err = p.Holder.Image(ctx, ref, policy, progress)
		if err == nil && image.ID != pin.ID {
			return engine.Image{}, fmt.Errorf("on this engine it is %s, and %s carries %s: load that, or %s", image.ID, p.Carrier, pin.ID, p.Anew)
		}
	}
	if errors.Is(err, engine.ErrNoImage) {
		return engine.Image{}, fmt.Errorf("%s carries %s, which is not to be had: %w; push or load it again, or %s", p.Carrier, pin.Described(), err, p.Anew)
	}
	image.Ref = ref
	return image, err
}

// held is the image with the content that is carried where the engine holds it, whatever it
// is called there by now.
func (p Pinned) held(ctx context.Context, pin Image) (engine.Image, error) {
	if pin.Digest != "" {
		image, err := p.Holder.Image(ctx, At(pin.Image, pin.Digest), engine.PullNever, nil)
		if !errors.Is(err, engine.ErrNoImage) || pin.ID == "" { // a lock file has one of both
			return image, err
		}
	}
	return p.Holder.Image(ctx, pin.ID, engine.PullNever, nil)
}
