package docker

import (
	"encoding/base64"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/registrytest"
)

func TestPullPolicies(t *testing.T) {
	e := open(t)
	requests := atomic.Int64{}
	registry := registrytest.Serve(t, &registrytest.Registry{Between: func(w http.ResponseWriter, r *http.Request, images http.Handler) {
		requests.Add(1)
		images.ServeHTTP(w, r)
	}})
	first, second := bulk(t, 1000), bulk(t, 1000)
	ref, _ := registry.Push(t, "policies:tag", first)
	t.Cleanup(func() { forget(t, e, ref) })
	asked := func(f func()) bool {
		before := requests.Load()
		f()
		return requests.Load() > before
	}
	image := func(policy engine.PullPolicy) engine.Image {
		t.Helper()
		found, err := e.Image(t.Context(), ref, policy, nil)
		require.NoError(t, err, "policy %s", policy)
		return found
	}
	assert.False(t, asked(func() {
		_, err := e.Image(t.Context(), ref, engine.PullNever, nil)
		assert.ErrorIs(t, err, engine.ErrNoImage, "never, and it is not there")
	}), "never asks the registry")
	var pulled engine.Image
	assert.True(t, asked(func() { pulled = image(engine.PullMissing) }), "missing does not ask the registry for what is missing")
	checkImage(t, pulled, ref, first)
	for _, policy := range []engine.PullPolicy{engine.PullMissing, engine.PullNever} {
		assert.False(t, asked(func() { checkImage(t, image(policy), ref, first) }), "%s asks the registry for what is there", policy)
	}
	registry.Push(t, "policies:tag", second)
	checkImage(t, image(engine.PullMissing), ref, first)
	checkImage(t, image(engine.PullAlways), ref, second)
	forget(t, e, pulled.ID) // it has lost its name to the second
}

func checkImage(t *testing.T, got engine.Image, ref string, want v1.Image) {
	t.Helper()
	id := must.Get(want.ConfigName())(t)
	digest := must.Get(want.Digest())(t)
	if want := (engine.Image{Ref: ref, ID: id.String(), Digest: digest.String(), OS: "linux", Arch: "amd64"}); got != want {
		t.Errorf("image is %+v\n   want %+v", got, want)
	}
}

func TestPullByDigest(t *testing.T) {
	e := open(t)
	registry := serveRegistry(t)
	image := bulk(t, 1000)
	tag, digest := registry.Push(t, "digests:tag", image)
	_, sum, _ := strings.Cut(digest, "@")
	for _, ref := range []string{digest, tag + "@" + sum} {
		t.Cleanup(func() { forget(t, e, digest) })
		for _, policy := range []engine.PullPolicy{engine.PullMissing, engine.PullAlways, engine.PullNever} {
			got, err := e.Image(t.Context(), ref, policy, nil)
			require.NoError(t, err, "%s, policy %s", ref, policy)
			checkImage(t, got, ref, image)
		}
		forget(t, e, digest)
	}
	wrong := digest[:len(digest)-1] + map[bool]string{true: "1", false: "0"}[strings.HasSuffix(digest, "0")]
	_, err := e.Image(t.Context(), wrong, engine.PullMissing, nil)
	checkError(t, err, engine.ErrNoImage, wrong, "manifest unknown", "check name, tag and digest")
}

func TestPullReportsProgress(t *testing.T) {
	e := open(t)
	registry := serveRegistry(t)
	image := bulk(t, 4<<20)
	ref, _ := registry.Push(t, "progress:tag", image)
	t.Cleanup(func() { forget(t, e, ref) })
	layers := must.Get(image.Layers())(t)
	var size int64
	for _, layer := range layers {
		n := must.Get(layer.Size())(t)
		size += n
	}
	var reports []engine.Progress
	must.Get(e.Image(t.Context(), ref, engine.PullMissing, func(p engine.Progress) { reports = append(reports, p) }))(t)
	require.True(t, len(reports) >= 3, "only %d reports: %v", len(reports), reports)
	assert.True(t, reports[0] == (engine.Progress{Image: ref}),
		"the first report is %+v, want one that only names the image", reports[0])
	if last := reports[len(reports)-1]; last != (engine.Progress{Image: ref, Current: size, Total: size}) {
		t.Errorf("the last report is %+v, want all %d bytes", last, size)
	}
	for i, p := range reports {
		assert.False(t, p.Total != 0 && p.Current > p.Total || p.Total > size, "report %d is out of bounds: %+v", i, p)
		if i > 0 && p.Current < reports[i-1].Current {
			t.Errorf("report %d goes back: %+v after %+v", i, p, reports[i-1])
		}
	}
}

func dockerConfig(t *testing.T, content map[string]any) string {
	directory := t.TempDir()
	writeJSON(t, filepath.Join(directory, "config.json"), content)
	return directory
}

func auths(host, user, password string) map[string]any {
	encoded := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return map[string]any{"auths": map[string]any{host: map[string]any{"auth": encoded}}}
}

// Where credentials may be is for package registryauth to test.
func TestPullWithCredentials(t *testing.T) {
	registry := registrytest.Serve(t, &registrytest.Registry{User: "somebody", Password: "secret:word"})
	ref, _ := registry.Push(t, "private:tag", bulk(t, 1000))
	for _, c := range []struct {
		name   string
		config map[string]any
		fails  []string // nil: it succeeds
	}{
		{name: "right ones in the file", config: auths(registry.Host, "somebody", "secret:word")},
		{name: "none", config: map[string]any{}, fails: []string{ref, "no basic auth credentials", "docker login " + registry.Host}},
		{name: "wrong ones", config: auths(registry.Host, "somebody", "wrong"), fails: []string{ref, "does not accept the credentials", "docker login " + registry.Host}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := openWith(t, Options{ConfigDir: dockerConfig(t, c.config)})
			t.Cleanup(func() { forget(t, e, ref) })
			_, err := e.Image(t.Context(), ref, engine.PullMissing, nil)
			if c.fails == nil {
				require.NoError(t, err)
				return
			}
			checkError(t, err, nil, c.fails...)
			require.NotContains(t, err.Error(), "wrong")
			assert.NotContains(t, err.Error(), "secret", "the error shows the password: %v", err)
		})
	}
}

func TestPullFails(t *testing.T) {
	e := open(t)
	registry := serveRegistry(t)
	registry.Push(t, "there:tag", bulk(t, 100))
	foreign := registry.PushIndex(t, "foreign:tag", mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: bulk(t, 100), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}},
	}))
	for _, c := range []struct {
		name, ref string
		says      []string
	}{
		{"no such tag", registry.Host + "/there:other", []string{"check name, tag and digest", registry.Host}},
		{"no such repository", registry.Host + "/missing:tag", []string{"check name, tag and digest", registry.Host}},
		{"nobody listens", "127.0.0.1:1/there:tag", []string{"connection refused", "registry 127.0.0.1:1 cannot be reached"}},
		{"no such registry", "registry.invalid/there:tag", []string{"registry registry.invalid cannot be reached", "check the registry's name"}},
		{"another platform", foreign, []string{"no matching manifest", "no variant of it for the engine's platform"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := e.Image(t.Context(), c.ref, engine.PullMissing, nil)
			checkError(t, err, engine.ErrNoImage, append(c.says, c.ref)...)
			unreachable := errors.As(err, new(*engine.UnreachableError))
			if unreachable != strings.Contains(err.Error(), "cannot be reached") || unreachable == strings.Contains(err.Error(), "no such image") {
				t.Errorf("it says that there is no such image, which nobody knows, or not that there is none: %v", err)
			}
		})
	}
	_, err := e.Image(t.Context(), "Not A Reference", engine.PullMissing, nil)
	checkError(t, err, nil, "Not A Reference", "invalid reference format")
}

func checkError(t *testing.T, err, target error, texts ...string) {
	require.Error(t, err, "no error, want one that says %q", texts)
	assert.False(t, target != nil && !errors.Is(err, target), "error %q is not %q", err, target)
	for _, text := range texts {
		assert.Contains(t, err.Error(), text, "error %q does not say %q", err, text)
	}
}

func message(id, status string, counts ...int64) jsonstream.Message {
	m := jsonstream.Message{ID: id, Status: status}
	if len(counts) == 2 {
		m.Progress = &jsonstream.Progress{Current: counts[0], Total: counts[1]}
	}
	return m
}

func TestProgressOverLayers(t *testing.T) {
	for _, c := range []struct {
		name     string
		messages []jsonstream.Message
		want     [][2]int64 // current and total of each report after the first
	}{
		{"nothing to fetch", []jsonstream.Message{message("tag", "Pulling from here"), message("a", "Already exists"), message("", "Status: up to date")}, nil},
		{"the total is unknown until every layer's is", []jsonstream.Message{
			message("a", "Pulling fs layer"), message("b", "Pulling fs layer"),
			message("a", "Downloading", 10, 100), message("b", "Waiting"), message("a", "Downloading", 50, 100),
			message("b", "Downloading", 5, 20), message("a", "Download complete"), message("b", "Download complete"),
		}, [][2]int64{{10, 0}, {50, 0}, {55, 120}, {105, 120}, {120, 120}}},
		{"extracting is not counted again", []jsonstream.Message{
			message("a", "Downloading", 10, 100), message("a", "Verifying Checksum"), message("a", "Extracting", 1, 100), message("a", "Extracting", 100, 100), message("a", "Pull complete"),
		}, [][2]int64{{10, 100}, {100, 100}}},
		{"a layer too small to be reported", []jsonstream.Message{
			message("a", "Pulling fs layer"), message("a", "Download complete"), message("a", "Extracting", 7, 7), message("a", "Pull complete"),
		}, [][2]int64{{7, 7}}},
		{"a length that the registry does not send", []jsonstream.Message{
			message("a", "Downloading", 10, -1), message("a", "Downloading", 20, -1), message("a", "Extracting", 5, 30), message("a", "Pull complete"),
		}, [][2]int64{{10, 0}, {20, 0}, {30, 30}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := reports(c.messages)[1:]
			want := make([]engine.Progress, len(c.want))
			for i, counts := range c.want {
				want[i] = engine.Progress{Image: "image", Current: counts[0], Total: counts[1]}
			}
			assert.True(t, slices.Equal(got, want), "reports %v\n   want %v", got, want)
		})
	}
}

func reports(messages []jsonstream.Message) []engine.Progress {
	var reports []engine.Progress
	layers := newLayers("image", func(p engine.Progress) { reports = append(reports, p) })
	for _, m := range messages {
		layers.see(m)
	}
	layers.done()
	return reports
}

// Whatever the engine says, in whatever order, the sums stay sane and the end is the whole.
func TestProgressStaysSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		statuses := []string{"Pulling fs layer", "Waiting", "Downloading", "Verifying Checksum", "Download complete", "Extracting", "Pull complete", "Already exists", "Retrying in 5 seconds", ""}
		sizes := map[string]int64{"a": 10, "b": 2000, "c": 0}
		messages := rapid.SliceOf(rapid.Custom(func(t *rapid.T) jsonstream.Message {
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "layer")
			status := rapid.SampledFrom(statuses).Draw(t, "status")
			return message(id, status, rapid.Int64Range(0, sizes[id]).Draw(t, "current"), sizes[id])
		})).Draw(t, "messages")
		all := reports(messages)
		for i, p := range all {
			require.False(t, p.Current < 0 || p.Total < 0 || p.Total != 0 && p.Current > p.Total, "report %d is out of bounds: %+v", i, p)
			require.False(t, i > 0 && p == all[i-1], "report %d says nothing new: %+v", i, p)
		}
		last := all[len(all)-1]
		require.Equal(t, last.Total, last.Current, "the last report is not the whole: %+v", last)
	})
}

func serveRegistry(t *testing.T) *registrytest.Registry {
	return registrytest.Serve(t, new(registrytest.Registry))
}

// bulk is an image of two layers with this many random bytes each.
func bulk(t *testing.T, size int64) v1.Image {
	image := must.Get(random.Image(size, 2))(t)
	config := must.Get(image.ConfigFile())(t)
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	image = must.Get(mutate.ConfigFile(image, config))(t)
	return image
}

// A digest is that of the name that was asked for: under another one nobody can pull it.
func TestTheDigestOfAnImageIsThatOfItsName(t *testing.T) {
	a, b := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	for _, c := range []struct {
		ref   string
		known []string
		want  string
	}{
		{"reg.example/a:1", []string{"reg.example/b@" + b, "reg.example/a@" + a}, a},
		{"my:1", []string{"reg.example/a@" + a}, ""},
		{"my:1", []string{"reg.example/my@" + b, "my@" + a}, a},
		{"my:1", []string{"<none>@<none>"}, ""},
		{"my@" + b, []string{"reg.example/a@" + a}, b},
		{a, []string{"reg.example/a@" + b}, ""},
	} {
		assert.Equal(t, c.want, manifestDigest(must.Get(parse(c.ref))(t), c.known), "%s, known as %v", c.ref, c.known)
	}
}
