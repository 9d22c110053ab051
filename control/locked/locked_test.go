package locked_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/control/locked"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/lockfile"
)

// world is an engine and a registry, which know contents by names.
type world struct {
	engine, registry map[string]engine.Image
	pulled           []string
}

func (w *world) Image(_ context.Context, ref string, policy engine.PullPolicy, _ func(engine.Progress)) (engine.Image, error) {
	if ref == "" {
		return engine.Image{}, errors.New("invalid reference format") // as of engines, which is not engine.ErrNoImage
	}
	image, here := w.engine[ref]
	if policy == engine.PullAlways || policy == engine.PullMissing && !here {
		w.pulled = append(w.pulled, ref)
		if image, here = w.registry[ref]; here {
			w.engine[ref] = image
		}
	}
	if !here {
		return engine.Image{}, fmt.Errorf("image %q: %w", ref, engine.ErrNoImage)
	}
	return image, nil
}

func digest(c string) string { return "sha256:" + strings.Repeat(c, 64) }

func TestWhatIsLockedIsUsedWhereverATagPoints(t *testing.T) {
	old, now := engine.Image{ID: digest("a"), Digest: digest("1")}, engine.Image{ID: digest("b"), Digest: digest("2")}
	w := &world{
		engine:   map[string]engine.Image{"r.example/web:1": now},
		registry: map[string]engine.Image{"r.example/web@" + digest("1"): old, "r.example/web:1": now},
	}
	lock := &lockfile.File{Images: map[string]lockfile.Image{
		"r.example/web:1": {Digest: digest("1")}, "gone:1": {Digest: digest("3")}, "built:1": {ID: digest("c")},
	}}
	w.engine["built:1"] = engine.Image{ID: digest("d")}
	var notes []string
	images := locked.NewImages(lock, w, true, func(text string) { notes = append(notes, text) })
	for range 2 {
		got, err := images.Image(t.Context(), "r.example/web:1", engine.PullMissing, nil)
		if want := (engine.Image{Ref: "r.example/web:1", ID: old.ID, Digest: old.Digest}); err != nil || got != want {
			t.Errorf("it is %+v, %v", got, err)
		}
	}
	if want := "image r.example/web:1 is " + digest("1") + ", as deployster.lock has it, although its name means " + digest("2") + ` here by now; "deployster lock --upgrade=r.example/web:1" takes that`; len(notes) != 1 || notes[0] != want {
		t.Errorf("notes are %q, want %q", notes, want)
	}
	for ref, want := range map[string]string{
		"gone:1":  "deployster.lock carries " + digest("3") + ", which is not to be had",
		"built:1": "on this engine it is " + digest("d") + ", and deployster.lock carries " + digest("c"),
		"other:1": "image other:1 is not in deployster.lock, and --locked uses nothing else",
	} {
		if got, err := images.Image(t.Context(), ref, engine.PullMissing, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %+v, %v", ref, got, err)
		}
	}
	w.engine["deployster/file"] = engine.Image{ID: digest("e")}
	if _, err := images.Image(t.Context(), "deployster/file", engine.PullMissing, nil); err != nil {
		t.Errorf("a type that ships: %v", err)
	}
}

func TestARunThatIsSentCarriesWhatIsLocked(t *testing.T) {
	lock := &lockfile.File{Images: map[string]lockfile.Image{"built:1": {ID: digest("c")}}}
	w := &world{engine: map[string]engine.Image{"built:1": {ID: digest("d")}, digest("c"): {ID: digest("c")}, "other:1": {ID: digest("e")}}}
	for _, all := range []bool{false, true} {
		text, err := locked.Encode(lock, all)
		if err != nil {
			t.Fatal(err)
		}
		images, err := locked.Decoded(text, w)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := images.Image(t.Context(), "built:1", engine.PullMissing, nil); err != nil || got.ID != digest("c") {
			t.Errorf("it is %+v, %v", got, err)
		}
		if _, err := images.Image(t.Context(), "other:1", engine.PullMissing, nil); (err != nil) != all {
			t.Errorf("what is not locked, with all %v: %v", all, err)
		}
	}
}

func TestALockIsBroughtUpToDate(t *testing.T) {
	w := &world{
		engine: map[string]engine.Image{
			"r.example/web:1": {ID: digest("a"), Digest: digest("1")}, "built:1": {ID: digest("c")}, "stays:1": {ID: digest("d")},
		},
		registry: map[string]engine.Image{"r.example/web:1": {ID: digest("b"), Digest: digest("2")}, "r.example/tool:1": {ID: digest("e"), Digest: digest("3")}},
	}
	lock := &lockfile.File{
		Images:  map[string]lockfile.Image{"stays:1": {ID: digest("9")}, "unused:1": {ID: digest("8")}},
		Modules: map[string]lockfile.Module{},
	}
	update := func(upgrade bool, refs ...string) []locked.Change {
		t.Helper()
		u := &locked.Update{Lock: lock, Holder: w, Policy: engine.PullMissing, Upgrade: func(string) bool { return upgrade }}
		for _, ref := range append(refs, "deployster/file", "x@"+digest("7")) {
			typ := ""
			if strings.Contains(ref, "tool") {
				typ = "built:1"
			}
			if err := u.Image(t.Context(), ref, typ); err != nil {
				t.Fatal(err)
			}
		}
		if upgrade {
			u.Prune()
		}
		return u.Changes()
	}

	got := update(false, "r.example/web:1", "built:1", "stays:1", "r.example/tool:1")
	if want := []locked.Change{
		{"image", "built:1", "", digest("c")}, {"image", "r.example/tool:1", "", digest("3")}, {"image", "r.example/web:1", "", digest("1")},
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("changes are %+v", got)
	}
	if got := update(false, "r.example/web:1", "built:1", "stays:1", "r.example/tool:1"); len(got) != 0 {
		t.Errorf("again, changes are %+v", got)
	}
	got = update(true, "r.example/web:1", "built:1", "stays:1", "r.example/tool:1")
	if want := []locked.Change{
		{"image", "r.example/web:1", digest("1"), digest("2")}, {"image", "stays:1", digest("9"), digest("d")}, {"image", "unused:1", digest("8"), ""},
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("upgraded, changes are %+v", got)
	}
	if want := map[string]lockfile.Image{
		"r.example/web:1": {Digest: digest("2")}, "built:1": {ID: digest("c")}, "stays:1": {ID: digest("d")},
		"r.example/tool:1": {Digest: digest("3"), For: []string{"built:1"}},
	}; !reflect.DeepEqual(lock.Images, want) {
		t.Errorf("it is %+v", lock.Images)
	}
	u := &locked.Update{Lock: lock, Holder: w, Policy: engine.PullMissing, Upgrade: func(string) bool { return true }}
	if err := u.Image(t.Context(), "none:1", ""); !errors.Is(err, engine.ErrNoImage) || lock.Images["none:1"].Content() != "" {
		t.Errorf("what there is not: %v, %+v", err, lock.Images["none:1"])
	}
}
