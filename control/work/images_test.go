package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/manifest"
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
	digested, local := revision.Image{Image: "reg:5000/x:1", ID: "sha256:1", Digest: "sha256:a"}, revision.Image{Image: "x:1", ID: "sha256:1"}
	for name, c := range map[string]struct {
		carried      revision.Image
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
		"unpinned":                     {revision.Image{Image: "x:1", Unpinned: "why"}, images{"x:1": two}, nil, "sha256:2"},
		"of an older version":          {revision.Image{}, images{"x:1": two}, nil, "sha256:2"},
	} {
		r := &registry{c.held, c.pulled, nil}
		ref := c.carried.Image
		if ref == "" {
			ref = "x:1"
		}
		p := revision.Pinned{Holder: r, Carried: []revision.Image{c.carried}, Carrier: "the revision", Anew: "make a new revision"}
		got, err := p.Image(t.Context(), ref, engine.PullAlways, nil)
		if c.carried.ID == "" { // it is asked for as it is
			got, err = p.Image(t.Context(), ref, engine.PullMissing, nil)
		}
		if err == nil && (got.ID != c.want || got.Ref != ref && c.carried.ID != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v, want %s (asked for %q)", name, got, err, c.want, r.asked)
		}
	}
	broken := errors.New("the engine is away")
	p := revision.Pinned{Holder: failing{broken}, Carried: []revision.Image{local}}
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
		if got := revision.At(ref, "d"); got != want {
			t.Errorf("%s is %s, want %s", ref, got, want)
		}
	}
}

// fleet is hosts h0, h1 and so on, of which some answer; of the others, those that hang do
// not even refuse.
type fleet struct {
	engine.Engine
	names, answer []string
	hang          bool
	held          map[string]engine.Image // nil are x:1 and y:1

	mu    sync.Mutex
	asked []string
}

func (f *fleet) Info(context.Context) (engine.Info, error) { return engine.Info{}, nil }
func (f *fleet) Close() error                              { return nil }

func (f *fleet) dial(ctx context.Context, host inventory.Host) (*Connection, error) {
	f.mu.Lock()
	f.asked = append(f.asked, host.Name)
	f.mu.Unlock()
	if slices.Contains(f.answer, host.Name) {
		held := f.held
		if held == nil {
			held = map[string]engine.Image{"x:1": {ID: "sha256:1"}, "y:1": {ID: "sha256:2"}}
		}
		return &Connection{Engine: f, Images: &registry{held: held}}, nil
	}
	if f.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, errors.New("refused")
}

// pin pins the images of two manifests with two types, each for all hosts.
func (f *fleet) pin(t *testing.T, hosts int) (*Collection, error) {
	t.Helper()
	list := "hosts:\n"
	for i := range hosts {
		f.names = append(f.names, fmt.Sprintf("h%d", i))
		list += fmt.Sprintf("  - {name: h%d, engine: oci}\n", i)
	}
	c := newCheckout(t, map[string]string{"inventory.yaml": list})
	pool := NewEnginePool(c.pool().hosts, f.dial)
	if _, err := pool.hosts.Inventory(); err != nil {
		t.Fatal(err)
	}
	var sources []manifest.Source
	for _, name := range []string{"one.yaml", "two.yaml"} {
		sources = append(sources, manifest.Source{Name: name, Data: []byte("resources: {a: {type: 'x:1', config: {}}, b: {type: 'y:1', config: {}}}")})
	}
	collected, err := Collect(c.dir, nil, nil, sources...)
	if err != nil {
		t.Fatal(err)
	}
	return collected, collected.PinImages(t.Context(), ImagePinning{Pool: pool, Policy: engine.PullMissing, Places: func(string) (places []Place, _ error) {
		for _, name := range slices.Concat(f.names, f.names[:1]) {
			places = append(places, Place{Host: name})
		}
		return places, nil
	}})
}

func TestImagesAreThoseOfAHostThatAnswersHoweverManyDoNot(t *testing.T) {
	f := &fleet{answer: []string{"h7"}}
	collected, err := f.pin(t, 9)
	if err != nil || !strings.Contains(string(collected.Files[revision.ImagesName]), "sha256:2") {
		t.Errorf("with one of nine hosts: %s, %v", collected.Files[revision.ImagesName], err)
	}
	slices.Sort(f.asked)
	if len(f.asked) != len(slices.Compact(slices.Clone(f.asked))) {
		t.Errorf("hosts were asked again: %v", f.asked)
	}
	f = &fleet{answer: []string{"h0", "h1"}}
	if _, err := f.pin(t, 3); err != nil || !slices.Equal(f.asked, []string{"h0"}) {
		t.Errorf("where the first host answers %v were asked: %v", f.asked, err)
	}
	f = &fleet{}
	_, err = f.pin(t, 5)
	if says := "no host answers (5 of 5 were asked, for at most 30s): host h0: refused host h1: refused host h2: refused, and 2 more"; err == nil || !strings.Contains(err.Error(), says) || len(f.asked) != 5 {
		t.Errorf("with none of five hosts, of which %v were asked: %v, want %q", f.asked, err, says)
	}
}

func TestHostsThatHangAreAskedForAWhileOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{hang: true}
		began := time.Now()
		_, err := f.pin(t, 80)
		if says := " of 80 were asked, for at most 30s)"; err == nil || !strings.Contains(err.Error(), says) || len(f.asked) < 30 {
			t.Errorf("with 80 hosts that hang, of which %d were asked: %v, want %q", len(f.asked), err, says)
		}
		if took := time.Since(began); took != searchTimeout {
			t.Errorf("it took %s", took)
		}
	})
}
