package work

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/engine"
	envdefinition "github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

func id(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }

// daemons are engines by host, and by the address of a socket of this machine.
type daemons map[string]daemonAt

type daemonAt struct {
	*registry
	engine.Engine
	remote bool
}

func (d daemonAt) Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error) {
	return d.registry.Image(ctx, ref, policy, progress)
}

func (d daemonAt) Info(context.Context) (engine.Info, error) {
	return engine.Info{Remote: d.remote}, nil
}
func (d daemonAt) Close() error { return nil }

func (d daemons) dial(_ context.Context, host inventory.Host) (*Connection, error) {
	at, ok := d[host.Name]
	if host.Name == dockerPlug {
		at, ok = d[host.Endpoint]
	}
	if !ok {
		return nil, fmt.Errorf("nothing listens at %s", host.Endpoint)
	}
	return &Connection{Engine: at, Info: engine.Info{Remote: at.remote}, Images: at}, nil
}

const dockerAt = "unix:///var/run/docker.sock"

func reading(given []vars.Assignment) func(...manifest.Source) ([]vars.Assignment, error) {
	return func(...manifest.Source) ([]vars.Assignment, error) { return given, nil }
}

// takes is what the revision takes of another pipeline.
var takes = []upstream.Input{{Release: upstream.Release{Pipeline: "web", Revision: "3"}, Artifacts: map[string]string{"image": "x:1"}}}

// fleetOf pins the images of a pipeline that applies a manifest on three hosts.
func (d daemons) fleetOf(t *testing.T, text string, given []vars.Assignment, unpinned bool) (checkout, *Collection, error) {
	c := newCheckout(t, map[string]string{"m.yaml": text, "inventory.yaml": "hosts:\n" +
		"  - {name: h1, engine: oci, attributes: {tag: '1'}}\n  - {name: h2, endpoint: 'ssh://h2', attributes: {tag: '2'}}\n  - {name: h3, engine: oci}\n"})
	pool := NewEnginePool(c.pool().hosts, d.dial)
	p := &definition.Definition{Name: "p", Stages: []definition.Stage{{Name: "beta", Deploy: &definition.Deploy{
		HostGroups: []definition.HostGroup{{Name: "all", Hosts: "name in (h1, h2, h3)"}}, Steps: []definition.HostStep{{Event: "done", Manifest: "m.yaml"}},
	}}}}
	collected := must.Get(CollectPipeline(c.dir, reading(given), p))(t)
	return c, collected, collected.PinImages(t.Context(), ImagePinning{
		Pool: pool, Policy: engine.PullMissing, Unpinned: unpinned, Places: collected.Places(c.config().Inputs, pool.hosts, p, "7", takes),
	})
}

func containerOf(image string) string {
	image = strings.ReplaceAll(image, "'", "''")
	return "plugs: {docker: {path: /var/run/docker.sock}}\nresources: {web: {type: deployster/container, config: {image: '" + image + "'}}}\n"
}

func holds(images map[string]string) *registry {
	r := &registry{held: map[string]engine.Image{}}
	for ref, content := range images {
		image := engine.Image{ID: content}
		if before, digest, is := strings.Cut(content, " "); is {
			image = engine.Image{ID: before, Digest: digest}
		}
		r.held[ref] = image
	}
	return r
}

func TestARevisionCarriesTheImagesThatConfigurationsName(t *testing.T) {
	socket := daemonAt{registry: holds(map[string]string{
		"x:1": id("1"), "x:7": id("7"), "reg/y:1": id("2") + " " + id("a"), "reg/y@" + id("a"): id("2"), "copied:1": id("3") + " " + id("b"),
	})}
	remote := daemonAt{registry: holds(map[string]string{"x:1": id("8"), "x:2": id("9")}), remote: true}
	own := daemonAt{registry: holds(nil)} // of the engine that needs no daemon
	all := daemons{"h1": own, "h3": own, "h2": remote, dockerAt: socket}
	for image, want := range map[string][]revision.Image{
		"x:1":                                  {{Image: "x:1", ID: id("1")}},
		"reg/y:1":                              {{Image: "reg/y:1", ID: id("2"), Digest: id("a")}},
		"copied:1":                             {{Image: "copied:1", ID: id("3")}}, // its digest is that of another name
		"x:{{ revision }}":                     {{Image: "x:7", ID: id("7")}},
		"x:{{ host_attributes.tag }}":          {{Image: "x:1", ID: id("1")}, {Image: "x:2", ID: id("9")}, {Image: "x:{{ host_attributes.tag }}", Late: true}},
		"{{ inputs.web.artifacts.image }}":     {{Image: "x:1", ID: id("1")}},
		"{{ artifacts.web }}":                  {{Image: "{{ artifacts.web }}", Late: true}},
		"reg/z@" + id("c"):                     nil,
		id("c"):                                nil,
		"reg/z@" + id("c")[:20] + "{{ \"\" }}": {{Image: "reg/z@" + id("c")[:20], Unpinned: `image "reg/z@` + id("c")[:20] + `": no such image`}},
	} {
		c, collected, err := all.fleetOf(t, containerOf(image), nil, strings.Contains(image, `""`))
		if err != nil {
			t.Errorf("%s: %v", image, err)
			continue
		}
		texts := c.config().Texts
		require.NoError(t, texts.KeepAll(collected.Files))
		got, err := texts.Images(collected.Files.Digests())
		require.NoError(t, err, image)
		assert.True(t, slices.EqualFunc(got, want, func(a, b revision.Image) bool { return reflect.DeepEqual(a, b) }), image)
	}
	for image, says := range map[string]string{
		"none:1":              `m.yaml:2:63: resources.web.config.image: which content image none:1 has cannot be found out, so a revision cannot carry it: image "none:1": no such image; make it available, or say --allow-unpinned`,
		"none:{{ revision }}": "which content image none:7 has cannot be found out",
		"{% if host == 'h2' %}x:3{% else %}x:1{% endif %}": "which content image x:3 has",
	} {
		var invalid *InputError
		_, _, err := all.fleetOf(t, containerOf(image), nil, false)
		assert.True(t, errors.As(err, &invalid) && strings.Contains(err.Error(), says), "of %s is said %v, want %q", image, err, says)
	}
	delete(all, dockerAt)
	if _, _, err := all.fleetOf(t, containerOf("x:1"), nil, false); err == nil || !strings.Contains(err.Error(), `the Docker Engine behind the plug "docker": nothing listens at unix:///var/run/docker.sock`) {
		t.Errorf("without a Docker Engine is said %v", err)
	}
	if _, collected, err := all.fleetOf(t, "plugs: {root: {path: .}}\nresources: {web: {type: deployster/file, config: {path: a, content: 'x'}}}", nil, false); err != nil || strings.Contains(string(collected.Files[revision.ImagesName]), "image\"") {
		t.Errorf("without any image: %v", err)
	}
}

func TestAConfigurationHasTheContentThatItsRevisionCarries(t *testing.T) {
	carried := &revision.Images{Configured: true, Images: []revision.Image{
		{Image: "x:1", ID: id("1")}, {Image: "reg/y:1", ID: id("2"), Digest: id("a")}, {Image: "x:{{ tag }}", Late: true},
		{Image: "free:1", Unpinned: "why"}, {Image: "free:{{ tag }}", Unpinned: "why"},
	}}
	c := newCheckout(t, nil)
	for _, tc := range []struct {
		images             *revision.Images
		observes           bool
		written, ref, want string // or what the error says
	}{
		{carried, false, "x:1", "x:1", id("1")},
		{carried, false, "reg/y:1", "reg/y:1", "reg/y@" + id("a")},
		{carried, false, "x:{{ tag }}", "x:1", id("1")},
		{carried, false, "x:{{ tag }}", "x:9", "resources.web.config.image: the revision does not carry which content image x:9 has: name it by its digest"},
		{carried, true, "x:{{ tag }}", "x:9", "x:9"},
		{carried, false, "{{ tag }}", "reg/z@" + id("c"), "reg/z@" + id("c")},
		{carried, false, "free:1", "free:1", "free:1"},
		{carried, false, "free:{{ tag }}", "free:2", "free:2"},
		{&revision.Images{}, false, "x:{{ tag }}", "x:9", "x:9"}, // an older version made it
		{nil, false, "x:{{ tag }}", "x:9", "x:9"},
	} {
		in, err := c.config().Load([]manifest.Source{{Name: "m.yaml", Data: []byte("plugs: {docker: {path: /s}}\nresources: {web: {type: deployster/container, config: {image: '" + tc.written + "'}}}")}},
			LoadOptions{images: tc.images, applies: !tc.observes, Partly: true})
		require.NoError(t, err)
		resolved := map[string]any{"image": tc.ref, "name": "n"}
		got := any(nil)
		if configure := in.configure(false); configure == nil {
			got = tc.ref
		} else if config, err := configure(in.Manifest.Resource("web"), resolved); err != nil {
			got = err.Error()
		} else if got = config["image"]; config["name"] != "n" || resolved["image"] != tc.ref {
			t.Errorf("%s: it is configured with %v, and was with %v", tc.ref, config, resolved)
		}
		if text, _ := got.(string); text != tc.want && (!strings.Contains(tc.want, ": ") || !strings.Contains(text, tc.want)) {
			t.Errorf("%s as %s is %v, want %s", tc.written, tc.ref, got, tc.want)
		}
	}
}

func TestTheTasksOfARevisionCarryImagesAsOneOfItsHostsHasThem(t *testing.T) {
	c := newCheckout(t, map[string]string{"m.yaml": containerOf("x:{{ tag }}"), "inventory.yaml": "hosts: [{name: h1, engine: oci}]"})
	all := daemons{"h1": daemonAt{registry: holds(nil)}, dockerAt: daemonAt{registry: holds(map[string]string{"x:1": id("1"), "x:2": id("2")})}}
	text := []byte(containerOf("x:{{ tag }}"))
	files := Carried{"m.yaml": text}
	d := envDefinition("m.yaml", files, map[string]any{"tag": "1"})
	pool := NewEnginePool(c.pool().hosts, all.dial)
	must.Get(pool.hosts.Inventory())(t)
	tasks := Identities{Inputs: c.config().Inputs, Texts: c.config().Texts, Hosts: pool.hosts, Drafts: files}
	pin := func(base []byte) string {
		t.Helper()
		p := ImagePinning{Pool: pool, Policy: engine.PullMissing, Base: base, Places: tasks.Places(d, []string{"h1"})}
		require.NoError(t, files.PinImages(t.Context(), p, manifest.Source{Name: "m.yaml", Data: text}))
		return string(files[revision.ImagesName])
	}
	first := pin(nil)
	assert.Contains(t, first, id("1"))
	assert.NotContains(t, first, id("2"))
	// What the base of a revision carries stays what it is; what is new is looked for.
	all[dockerAt].held["x:1"] = engine.Image{ID: id("5")}
	assert.Equal(t, first, pin([]byte(first)))
	d.Task.Vars["tag"] = "2"
	assert.Contains(t, pin([]byte(first)), id("2"))
}

func envDefinition(name string, files Carried, vars map[string]any) *envdefinition.Definition {
	includes := files.Digests()
	digest := includes[name]
	delete(includes, name)
	return &envdefinition.Definition{Name: "e", Task: envdefinition.TaskSpec{Manifest: name, Digest: digest, Includes: includes, Vars: vars}}
}

func TestHostsStayWhileTheInventoryCanNotBeRead(t *testing.T) {
	h := NewHosts(filepath.Join(t.TempDir(), "inventory.yaml"))
	write := func(text string) { require.NoError(t, os.WriteFile(h.path, []byte(text), 0o600)) }
	d := &definition.Definition{Name: "p", Stages: []definition.Stage{{
		Name: "all", Deploy: &definition.Deploy{HostGroups: []definition.HostGroup{{Name: "all", Hosts: "name =~ ."}}},
	}}}
	members := func() []string {
		t.Helper()
		m := must.Get(h.Members(d))(t)
		return m["all"]
	}
	assert.Error(t, must.Fail(h.Members(d)), "there is no inventory, and no error")
	write("hosts: [{name: a, engine: oci, slots: 3}]")
	if got := members(); len(got) != 1 || h.Slots("a") != 3 {
		t.Errorf("members %v, %d slots", got, h.Slots("a"))
	}
	write("hosts: [")
	assert.Error(t, must.Fail(h.Members(d)), "the inventory is broken, and no error")
	if known, ok := h.host("a"); !ok || known.Slots != 3 || h.Slots("a") != 3 {
		t.Errorf("the host is %+v, %v", known, ok)
	}
	write("hosts: [{name: b, engine: oci}, {name: c, engine: oci}]")
	got := members()
	assert.True(t, len(got) == 2 && h.Slots("b") == 1, "members %v", got)
	_, ok := h.host("a")
	assert.False(t, ok, "the host that left is still there")
}

func TestAHostIsGoneOnlyWhenAnInventorySaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inventory.yaml")
	h := NewHosts(path)
	write := func(text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		h.Version() // looks at the file
	}
	h.Version()
	assert.True(t, h.Known("one"), "a host is gone because the file is not there")
	write("{{{")
	assert.True(t, h.Known("one"), "a host is gone because the file cannot be read")
	write("hosts: [{name: one, engine: oci}]")
	assert.True(t, h.Known("one"))
	assert.False(t, h.Known("two"))
	write("hosts: [{name: o")
	assert.True(t, h.Known("one"))
	assert.False(t, h.Known("two"))
}

func TestAHostIsFoundByWhoAsksFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inventory.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`hosts: [{name: a, endpoint: "unix:///run/a", attributes: {socket: /run/a}}]`), 0o600))
	assert.Equal(t, "/run/a", NewHosts(path).Attribute("a", "socket"))
}

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
	document := func(c revision.Images) []byte { return must.Get(c.Encode())(t) }
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
		assert.Equal(t, c.asked, strings.Join(asked, " "), name)
		if c.says != "" {
			assert.ErrorContains(t, err, c.says, name)
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

func TestATextIsKeptAsItWas(t *testing.T) {
	texts := NewTexts(filepath.Join(t.TempDir(), "objects"), t.TempDir(), nil)
	const text = "resources: {} # a secret\n"
	assert.Equal(t, text, string(must.Get(texts.Load(must.Get(texts.Keep([]byte(text)))(t)))(t)))
	_, err := texts.Load(strings.Repeat("0", 64))
	for _, says := range []string{strings.Repeat("0", 64), "missing", "put it back", "new revision"} {
		assert.ErrorIs(t, err, objects.ErrMissing)
		assert.ErrorContains(t, err, says)
	}
	assert.ErrorContains(t, must.Fail(texts.Load("../../m")), "SHA-256", "of what is no digest")
}

// Other errors have other remedies: what may not be read is there.
func TestATextThatCannotBeReadIsNotCalledLost(t *testing.T) {
	dir := t.TempDir()
	texts := NewTexts(filepath.Join(dir, "objects"), dir, nil)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "objects"), nil, 0o600))
	_, err := texts.Load(strings.Repeat("0", 64))
	assert.True(t, err != nil && !strings.Contains(err.Error(), "put it back"), "where no directory is, is said %v", err)
	for _, says := range []string{"the owner of the log", "group", "0770", "0660"} {
		err := fmt.Errorf("object: %w", fs.ErrPermission)
		assert.ErrorContains(t, objects.Remedied(err), says, "of what may not be read")
	}
}

func TestATextThatAFormerVersionKeptIsRead(t *testing.T) {
	workspace := t.TempDir()
	texts := NewTexts(filepath.Join(t.TempDir(), "objects"), workspace, nil)
	const text = "resources: {}\n"
	digest := objects.Hash([]byte(text))
	path := filepath.Join(workspace, ".deployster", "manifests", digest+".yaml")
	write := func(text string) {
		require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	}
	write(text)
	got, err := texts.Load(digest)
	assert.True(t, err == nil && string(got) == text, "got %q, %v", got, err)
	write(text + "# altered")
	got, err = texts.Load(digest)
	assert.True(t, errors.Is(err, objects.ErrAltered) && got == nil, "altered it is %q, %v", got, err)
	must.Get(texts.Keep([]byte(text)))(t)
	got, err = texts.Load(digest)
	assert.True(t, err == nil && string(got) == text, "kept again it is %q, %v", got, err)
}
