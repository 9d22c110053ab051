package work

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine"
)

// registry is an engine with what it holds, and what it can get, by reference.
type registry struct {
	held, pulled map[string]engine.Image
	asked        []string
}

func (r *registry) Image(_ context.Context, ref string, policy engine.PullPolicy, _ func(engine.Progress)) (engine.Image, error) {
	r.asked = append(r.asked, string(policy)+" "+ref)
	if image, ok := r.held[ref]; ok && policy != engine.PullAlways {
		return image, nil
	}
	if image, ok := r.pulled[ref]; ok && policy != engine.PullNever {
		return image, nil
	}
	return engine.Image{}, fmt.Errorf("image %q: %w", ref, engine.ErrNoImage)
}

func TestAnImageHasTheContentThatItsRevisionCarries(t *testing.T) {
	one, two := engine.Image{ID: "sha256:1", Digest: "sha256:a"}, engine.Image{ID: "sha256:2", Digest: "sha256:b"}
	type images = map[string]engine.Image
	digested, local := CarriedImage{Image: "reg:5000/x:1", ID: "sha256:1", Digest: "sha256:a"}, CarriedImage{Image: "x:1", ID: "sha256:1"}
	for name, c := range map[string]struct {
		carried      CarriedImage
		held, pulled images
		want         string // id, or what the error says
	}{
		"held by its digest":           {digested, images{"reg:5000/x@sha256:a": one, "reg:5000/x:1": two}, nil, "sha256:1"},
		"held by its id":               {digested, images{"sha256:1": one, "reg:5000/x:1": two}, nil, "sha256:1"},
		"of a registry":                {digested, images{"reg:5000/x:1": two}, images{"reg:5000/x@sha256:a": one, "reg:5000/x:1": two}, "sha256:1"},
		"gone from the registry":       {digested, images{"reg:5000/x:1": two}, images{"reg:5000/x:1": two}, "the revision carries sha256:a, which is not to be had: "},
		"local":                        {local, images{"sha256:1": one, "x:1": two}, nil, "sha256:1"},
		"local, on another engine":     {local, images{"x:1": one}, nil, "sha256:1"},
		"local, and another elsewhere": {local, images{"x:1": two}, nil, "on this engine it is sha256:2, and the revision carries sha256:1: load that"},
		"local, and gone":              {local, nil, nil, "the revision carries sha256:1, of no registry, which is not to be had: "},
		"unpinned":                     {CarriedImage{Image: "x:1", Unpinned: "why"}, images{"x:1": two}, nil, "sha256:2"},
		"of an older version":          {CarriedImage{}, images{"x:1": two}, nil, "sha256:2"},
	} {
		r := &registry{c.held, c.pulled, nil}
		ref := c.carried.Image
		if ref == "" {
			ref = "x:1"
		}
		p := pinned{r, []CarriedImage{c.carried}}
		got, err := p.Image(t.Context(), ref, engine.PullAlways, nil)
		if c.carried.ID == "" { // it is asked for as it is
			got, err = p.Image(t.Context(), ref, engine.PullMissing, nil)
		}
		if err == nil && (got.ID != c.want || got.Ref != ref && c.carried.ID != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v, want %s (asked for %q)", name, got, err, c.want, r.asked)
		}
	}
	broken := errors.New("the engine is away")
	p := pinned{failing{broken}, []CarriedImage{local}}
	if _, err := p.Image(t.Context(), "x:1", engine.PullMissing, nil); !errors.Is(err, broken) || strings.Contains(err.Error(), "not to be had") {
		t.Errorf("of an engine that is away: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Image(context.Context, string, engine.PullPolicy, func(engine.Progress)) (engine.Image, error) {
	return engine.Image{}, f.err
}

func TestAnImageIsNamedWithItsDigest(t *testing.T) {
	for ref, want := range map[string]string{
		"x": "x@d", "x:1": "x@d", "reg:5000/x": "reg:5000/x@d", "reg:5000/x:1": "reg:5000/x@d", "a/b:1@sha256:0": "a/b@d", "x@sha256:0": "x@d",
	} {
		if got := at(ref, "d"); got != want {
			t.Errorf("%s is %s, want %s", ref, got, want)
		}
	}
}
