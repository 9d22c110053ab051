// Package locked has manifests use what deployster.lock says that the names in them mean, and
// finds out what they mean now.
package locked

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/lockfile"
	"github.com/deployster-go/deployster/internal/shipped"
)

// Ships reports whether a type is one that ships, which is of the version that applies it.
func Ships(ref string) bool {
	name, prefixed := strings.CutPrefix(ref, shipped.Prefix)
	_, known := shipped.Lookup(name)
	return prefixed && known
}

// Fixed reports whether a lock has nothing to say of an image: its name tells its content, or it ships.
func Fixed(ref string) bool { return Ships(ref) || revision.IsContent(ref) }

// Carried are the images of a lock in the form in which a revision carries images.
func Carried(f *lockfile.File) (carried []revision.Image) {
	for _, ref := range slices.Sorted(maps.Keys(f.Images)) {
		i := f.Images[ref]
		carried = append(carried, revision.Image{Image: ref, Digest: i.Digest, ID: i.ID, For: i.For})
	}
	return carried
}

// Images makes images available with the contents that the lock says.
type Images struct {
	revision.Pinned
	note func(string)

	mutex sync.Mutex
	noted map[string]bool
}

// NewImages has images of holder be those of a lock. all refuses an image of which it says nothing.
// note is told of names that mean something else on the engine by now.
func NewImages(f *lockfile.File, holder revision.Holder, all bool, note func(string)) *Images {
	return &Images{Pinned: pinned(Carried(f), holder, all), note: note, noted: map[string]bool{}}
}

// Image is that of the lock.
func (i *Images) Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error) {
	image, err := i.Pinned.Image(ctx, ref, policy, progress)
	if err == nil && slices.ContainsFunc(i.Carried, func(c revision.Image) bool { return c.Image == ref }) {
		i.compare(ctx, ref, image)
	}
	return image, err
}

// compare tells, once, that the name means something else on the engine by now. No registry
// is asked for that.
func (i *Images) compare(ctx context.Context, ref string, used engine.Image) {
	now, err := i.Holder.Image(ctx, ref, engine.PullNever, nil)
	if err != nil || now.ID == used.ID {
		return
	}
	i.mutex.Lock()
	known := i.noted[ref]
	i.noted[ref] = true
	i.mutex.Unlock()
	if !known {
		i.note(fmt.Sprintf(`image %s is %s, as %s has it, although its name means %s here by now; "deployster lock --upgrade=%s" takes that`,
			ref, content(used), lockfile.Name, content(now), ref))
	}
}

func content(i engine.Image) string {
	if i.Digest != "" {
		return i.Digest
	}
	return i.ID
}

// Resolve finds out what an image's name means. With anew the registry is asked, and not only
// what the engine has; an image that no registry gives may be one that was built here.
func Resolve(ctx context.Context, holder revision.Holder, ref string, policy engine.PullPolicy, anew bool) (lockfile.Image, error) {
	if anew && policy == engine.PullMissing {
		policy = engine.PullAlways
	}
	image, err := holder.Image(ctx, ref, policy, nil)
	if errors.Is(err, engine.ErrNoImage) && policy == engine.PullAlways {
		if here, e := holder.Image(ctx, ref, engine.PullNever, nil); e == nil && here.Digest == "" {
			image, err = here, nil
		}
	}
	switch {
	case err != nil:
		return lockfile.Image{}, err
	case image.Digest != "":
		return lockfile.Image{Digest: image.Digest}, nil
	case image.ID == "":
		return lockfile.Image{}, fmt.Errorf("image %s: the engine does not say which content it has", ref)
	}
	return lockfile.Image{ID: image.ID}, nil
}
