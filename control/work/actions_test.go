package work

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/manifest"
)

// naming is types of which some name images for their actions, and others cannot be asked.
func naming(named map[string][]string, asked *[]string) AskActions {
	return func(_ context.Context, _ *Connection, m *manifest.Manifest, resources []string, _ []revision.Image) (map[string][]string, map[string]error) {
		failed := map[string]error{}
		for _, r := range resources {
			if *asked = append(*asked, r); named[r] == nil {
				failed[r] = errors.New("it answers nothing")
			}
		}
		return named, failed
	}
}

func TestARevisionCarriesTheImagesThatTypesNameForTheirActions(t *testing.T) {
	const text = "resources: {a: {type: 'x:1', config: {}}, b: {type: 'x:1', config: {}}, c: {type: deployster/file, config: {path: a}}}"
	held := map[string]engine.Image{"x:1": {ID: id("1")}, "tool:1": {ID: id("2")}}
	document := func(c revision.Images) []byte {
		text, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	x, tool := revision.Image{Image: "x:1", ID: id("1")}, revision.Image{Image: "tool:1", ID: id("2"), For: []string{"x:1"}}
	older := revision.Image{Image: "tool:1", ID: id("5"), For: []string{"x:1"}}
	for name, c := range map[string]struct {
		named    map[string][]string
		unpinned bool
		base     []byte
		away     bool // no host answers
		asked    string
		want     revision.Images
		says     string // of an error
	}{
		"with a tool": {
			named: map[string][]string{"a": {"tool:1"}, "b": {"tool:1", "reg/t@" + id("9")}}, asked: "a b",
			want: revision.Images{Actions: true, Images: []revision.Image{tool, x}},
		},
		"without any": {named: map[string][]string{"a": {}, "b": {}}, asked: "a b", want: revision.Images{Actions: true, Images: []revision.Image{x}}},
		"with a tool that is not there": {
			named: map[string][]string{"a": {"none:1"}, "b": {}}, asked: "a b", says: "m.yaml:1:13: resources.a.type: which content image none:1 has cannot be found out",
		},
		"that cannot be asked": {named: map[string][]string{"b": {}}, asked: "a b", says: "resources.a.type: which images the actions of x:1 run cannot be found out, so a revision cannot carry them: it answers nothing; mend that, or say --allow-unpinned"},
		"that cannot be asked, and may be unpinned": {
			named: map[string][]string{"b": {"none:1"}}, asked: "a b", unpinned: true,
			want: revision.Images{Actions: true, Unpinned: "--allow-unpinned was given", Images: []revision.Image{
				{Image: "none:1", Unpinned: `image "none:1": no such image`, For: []string{"x:1"}}, x,
			}},
		},
		"as its base has it": {
			base: document(revision.Images{Actions: true, Images: []revision.Image{older, x, {Image: "other:1", ID: id("7")}}}),
			want: revision.Images{Actions: true, Images: []revision.Image{older, x}},
		},
		"of a base that an older version made": {
			base: document(revision.Images{Images: []revision.Image{x}}), named: map[string][]string{"a": {"tool:1"}, "b": {}}, asked: "a b",
			want: revision.Images{Actions: true, Images: []revision.Image{tool, x}},
		},
		"of such a base that cannot be asked": {
			base: document(revision.Images{Images: []revision.Image{x}}), named: map[string][]string{"b": {}}, asked: "a b",
			says: "resources.a.type: which images the actions of x:1 run cannot be found out",
		},
		"of such a base where no host answers": {
			base: document(revision.Images{Images: []revision.Image{x}}), away: true, want: revision.Images{Images: []revision.Image{x}},
		},
		"of a base that may be unpinned": {
			base: document(revision.Images{Actions: true, Unpinned: "why", Images: []revision.Image{x}}), want: revision.Images{Actions: true, Unpinned: "why", Images: []revision.Image{x}},
		},
	} {
		var asked []string
		f := &fleet{}
		if !c.away {
			f.answer = []string{""}
		}
		on := NewEnginePool(NewHosts(""), f.dial)
		f.held = held
		files := Carried{"m.yaml": []byte(text)}
		err := files.PinImages(t.Context(), ImagePinning{
			Pool: on, Policy: engine.PullMissing, Unpinned: c.unpinned, Base: c.base, Ask: naming(c.named, &asked), Places: func(string) ([]Place, error) { return nil, nil },
		}, manifest.Source{Name: "m.yaml", Data: []byte(text)})
		if got := strings.Join(asked, " "); got != c.asked {
			t.Errorf("a type %s: %q were asked, want %q", name, got, c.asked)
		}
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("a type %s is not refused because %q: %v", name, c.says, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("a type %s: %v", name, err)
			continue
		}
		got, err := revision.DecodeImages(files[revision.ImagesName])
		if c.want.Version, c.want.Configured = 1, true; err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("a type %s is carried as\n%+v, %v, want\n%+v", name, got, err, c.want)
		}
	}
}

func TestAnActionRunsNoImageThatItsRevisionDoesNotCarry(t *testing.T) {
	carried := []revision.Image{{Image: "tool:1", ID: id("2")}, {Image: "loose:1", Unpinned: "why"}}
	images := func(actions bool, unpinned string) *revision.Images {
		return &revision.Images{Actions: actions, Unpinned: unpinned, Images: carried}
	}
	for _, c := range []struct {
		in   Input
		ref  string
		want bool // it is refused
	}{
		{Input{images: images(true, ""), applies: true}, "other:1", true},
		{Input{images: images(true, ""), applies: true}, "deployster/none", true},
		{Input{images: images(true, ""), applies: true}, "tool:1", false},
		{Input{images: images(true, ""), applies: true}, "loose:1", false},
		{Input{images: images(true, ""), applies: true}, "other@" + id("3"), false},
		{Input{images: images(true, ""), applies: true}, "deployster/file", false},
		{Input{images: images(true, "why"), applies: true}, "other:1", false},
		{Input{images: images(false, ""), applies: true}, "other:1", false}, // an older version made it
		{Input{images: images(true, "")}, "other:1", false},                 // what was made can be removed
		{Input{applies: true}, "other:1", false},
	} {
		held := &registry{held: map[string]engine.Image{c.ref: {ID: id("4")}, id("2"): {ID: id("2")}}}
		_, err := c.in.pinned(held).Image(t.Context(), c.ref, engine.PullNever, nil)
		if (err != nil) != c.want || err != nil && !strings.Contains(err.Error(), "action_images of init, and make a new revision") {
			t.Errorf("%s of %+v: %v", c.ref, c.in.images, err)
		}
	}
}
