package work

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/engine"
	envdefinition "github.com/deployster-go/deployster/environment/definition"
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

// reading is what CollectPipeline reads variables with.
func reading(given []vars.Assignment) func(...manifest.Source) ([]vars.Assignment, error) {
	return func(...manifest.Source) ([]vars.Assignment, error) { return given, nil }
}

// takes is what the revision takes of another pipeline.
var takes = []upstream.Input{{Release: upstream.Release{Pipeline: "web", Revision: "3"}, Artifacts: map[string]string{"image": "x:1"}}}

// fleetOf pins the images of a pipeline that applies a manifest on three hosts.
func (d daemons) fleetOf(t *testing.T, text string, given []vars.Assignment, unpinned bool) (checkout, *Collection, error) {
	t.Helper()
	c := newCheckout(t, map[string]string{"m.yaml": text, "inventory.yaml": "hosts:\n" +
		"  - {name: h1, engine: oci, attributes: {tag: '1'}}\n  - {name: h2, endpoint: 'ssh://h2', attributes: {tag: '2'}}\n  - {name: h3, engine: oci}\n"})
	pool := NewEnginePool(c.pool().hosts, d.dial)
	p := &definition.Definition{Name: "p", Stages: []definition.Stage{{Name: "beta", Deploy: &definition.Deploy{
		HostGroups: []definition.HostGroup{{Name: "all", Hosts: "name in (h1, h2, h3)"}}, Steps: []definition.HostStep{{Event: "done", Manifest: "m.yaml"}},
	}}}}
	collected, err := CollectPipeline(c.dir, reading(given), p)
	if err != nil {
		t.Fatal(err)
	}
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
		if err := texts.KeepAll(collected.Files); err != nil {
			t.Fatal(err)
		}
		got, err := texts.Images(collected.Files.Digests())
		if err != nil || !slices.EqualFunc(got, want, func(a, b revision.Image) bool { return reflect.DeepEqual(a, b) }) {
			t.Errorf("of %s it carries %+v, %v, want %+v", image, got, err, want)
		}
	}
	for image, says := range map[string]string{
		"none:1":              `m.yaml:2:63: resources.web.config.image: which content image none:1 has cannot be found out, so a revision cannot carry it: image "none:1": no such image; make it available, or say --allow-unpinned`,
		"none:{{ revision }}": "which content image none:7 has cannot be found out",
		"{% if host == 'h2' %}x:3{% else %}x:1{% endif %}": "which content image x:3 has",
	} {
		var invalid *InputError
		if _, _, err := all.fleetOf(t, containerOf(image), nil, false); !errors.As(err, &invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("of %s is said %v, want %q", image, err, says)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		resolved := map[string]any{"image": tc.ref, "name": "n"}
		got := any(nil)
		if configure := in.configure(); configure == nil {
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
	if _, err := pool.hosts.Inventory(); err != nil {
		t.Fatal(err)
	}
	tasks := Identities{Inputs: c.config().Inputs, Texts: c.config().Texts, Hosts: pool.hosts, Drafts: files}
	pin := func(base []byte) string {
		t.Helper()
		p := ImagePinning{Pool: pool, Policy: engine.PullMissing, Base: base, Places: tasks.Places(d, []string{"h1"})}
		if err := files.PinImages(t.Context(), p, manifest.Source{Name: "m.yaml", Data: text}); err != nil {
			t.Fatal(err)
		}
		return string(files[revision.ImagesName])
	}
	first := pin(nil)
	if !strings.Contains(first, id("1")) || strings.Contains(first, id("2")) {
		t.Errorf("it carries %s", first)
	}
	// What the base of a revision carries stays what it is; what is new is looked for.
	all[dockerAt].held["x:1"] = engine.Image{ID: id("5")}
	if again := pin([]byte(first)); again != first {
		t.Errorf("it carries %s", again)
	}
	d.Task.Vars["tag"] = "2"
	if other := pin([]byte(first)); !strings.Contains(other, id("2")) {
		t.Errorf("with another variable it carries %s", other)
	}
}

// envDefinition is that of an environment whose task has files.
func envDefinition(name string, files Carried, vars map[string]any) *envdefinition.Definition {
	includes := files.Digests()
	digest := includes[name]
	delete(includes, name)
	return &envdefinition.Definition{Name: "e", Task: envdefinition.TaskSpec{Manifest: name, Digest: digest, Includes: includes, Vars: vars}}
}
