package tfimage

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/protocol"
)

// fakeEngine keeps what was loaded last, and runs a provider that says something.
type fakeEngine struct {
	loaded [][]byte
	said   string
	code   int
	ran    engine.Spec
}

func (e *fakeEngine) Load(_ context.Context, tar io.Reader) error {
	text, err := io.ReadAll(tar)
	e.loaded = append(e.loaded, text)
	return err
}

func (e *fakeEngine) Run(_ context.Context, spec engine.Spec, io engine.IO) (engine.Exit, error) {
	e.ran = spec
	to := io.Stdout
	if e.code != 0 {
		to = io.Stderr
	}
	_, err := to.Write([]byte(e.said))
	return engine.Exit{Code: e.code}, err
}

const described = `{"name":"fake_thing","config_schema":{"type":"object"},"state_schema":{}}
{"name":"fake_Bad","config_schema":{},"state_schema":{}}
{"name":"fake_wrong","config_schema":{"type":7},"state_schema":{}}
{"name":"data.fake_thing","config_schema":{"type":"object"},"state_schema":{}}
`

func contents(t *testing.T) Contents {
	dir := t.TempDir()
	for _, name := range []string{"deployster", "provider"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("program "+name), 0o600))
	}
	return Contents{Program: shipped.Binary{Path: filepath.Join(dir, "deployster"), Arch: "arm64"}, Provider: filepath.Join(dir, "provider")}
}

func TestImagesOfAllResources(t *testing.T) {
	e := &fakeEngine{said: described}
	made := must.Get(Make(t.Context(), e, contents(t), Options{
		Name: "terraform/fake", Version: "1.2.3", Plugs: map[string]protocol.PlugRequest{"docker": {ContainerPath: "/var/run/docker.sock"}},
	}))(t)
	assert.Equal(t, "[terraform/fake/data.fake_thing:1.2.3 terraform/fake/fake_thing:1.2.3]", fmt.Sprint(made.Images))
	if len(made.Skipped) != 2 || !strings.Contains(made.Skipped["fake_Bad"], "cannot be that of an image") || !strings.Contains(made.Skipped["fake_wrong"], "its schema") {
		t.Errorf("it skipped %v", made.Skipped)
	}
	assert.True(t, e.ran.Image == "terraform/fake:1.2.3" && e.ran.Network == "none" && e.ran.Timeout != 0, "the provider was run as %+v", e.ran)
	checkImages(t, e.loaded[1])
}

// checkImages checks a tar with the images of all resources.
func checkImages(t *testing.T, loaded []byte) {
	t.Helper()
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(loaded)), nil })
	require.True(t, err == nil && len(manifest) == 3, "the images are %v: %v", manifest, err)
	var image v1.Image
	for _, m := range manifest {
		tag := mustTag(t, m.RepoTags[0])
		if image, err = tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(loaded)), nil }, &tag); err != nil {
			t.Fatal(err)
		}
		config := must.Get(image.ConfigFile())(t)
		run := strings.Join(config.Config.Entrypoint, " ")
		if want := strings.TrimSpace("/deployster type run terraform " + resourceOf(m.RepoTags[0])); run != want || config.Architecture != "arm64" {
			t.Errorf("%s runs %q on %s, want %q", m.RepoTags[0], run, config.Architecture, want)
		}
	}
	files := filesOf(t, mutate.Extract(image))
	if files["deployster"] != "program deployster" || files["terraform/provider"] != "program provider" || !strings.Contains(files["etc/ssl/certs/ca-certificates.crt"], "BEGIN CERTIFICATE") {
		t.Errorf("the image has %v", files)
	}
	if got := files["terraform/types/fake_thing.json"]; !strings.Contains(got, `"container_path":"/var/run/docker.sock"`) || !strings.Contains(got, `"config_schema":{"type":"object"}`) {
		t.Errorf("of the resource the image has %q", got)
	}
}

func TestImagesOfSomeResources(t *testing.T) {
	for resource, want := range map[string]string{
		"data.fake_thing": "[terraform/fake/data.fake_thing:1]",
		"fake_thin":       `the provider has no resource "fake_thin"; did you mean fake_thing?`,
		"BAD":             `the provider has no resource "BAD"; names like it are fake_Bad`,
		"aws_instance":    `the provider has no resource "aws_instance"; it has data.fake_thing, fake_Bad, fake_thing, fake_wrong`,
		"fake_Bad":        "fake_Bad: its name cannot be that of an image",
	} {
		made, err := Make(t.Context(), &fakeEngine{said: described}, contents(t), Options{Name: "terraform/fake", Version: "1", Resources: []string{resource}})
		got := fmt.Sprint(made.Images)
		if err != nil {
			got = err.Error()
		}
		assert.Equal(t, want, got, "%s gave %s, want %s", resource, got, want)
	}
}

func TestProvidersThatSayNothingUseful(t *testing.T) {
	for said, tc := range map[string]struct {
		code int
		want string
	}{
		"":                                 {0, "it has no resources"},
		"hello":                            {0, "its answer is not understood"},
		"error: the provider is too old\n": {1, "asking the provider for its resources: the provider is too old"},
	} {
		_, err := Make(t.Context(), &fakeEngine{said: said, code: tc.code}, contents(t), Options{Name: "x", Version: "1"})
		assert.True(t, err != nil && strings.Contains(err.Error(), tc.want), "%q gave %v, want %q", said, err, tc.want)
	}
	assert.Error(t, must.Fail((&bounded{most: 3}).Write([]byte("four"))), "more was taken than is to be")
}

// brokenEngine stops reading in the middle.
type brokenEngine struct{ fakeEngine }

func (*brokenEngine) Load(_ context.Context, tar io.Reader) error {
	_, _ = io.CopyN(io.Discard, tar, 100)
	return errors.New("the disk is full")
}

func TestAnEngineThatCannotTakeImages(t *testing.T) {
	assert.ErrorContains(t, must.Fail(Make(t.Context(), &brokenEngine{}, contents(t), Options{Name: "x", Version: "1"})), "loading the images: the disk is full")
}

func mustTag(t *testing.T, text string) name.Tag {
	tag := must.Get(name.NewTag(text, name.WeakValidation))(t)
	return tag
}

// resourceOf is the resource in the name of an image, "" of that of the provider.
func resourceOf(tag string) string {
	_, rest, _ := strings.Cut(tag, "terraform/fake/")
	resource, _, _ := strings.Cut(rest, ":")
	return resource
}

func filesOf(t *testing.T, from io.ReadCloser) map[string]string {
	defer from.Close()
	files := map[string]string{}
	for archive := tar.NewReader(from); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		text := must.Get(io.ReadAll(archive))(t)
		files[header.Name] = string(text)
	}
}
