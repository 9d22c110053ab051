package enginetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
)

func program(f enginetest.Program) enginetest.FakeImage {
	return enginetest.FakeImage{Program: f, Entrypoint: []string{"/program"}}
}

func hang(ctx context.Context, _ enginetest.Call) int { <-ctx.Done(); return 0 }

func TestFakeRecordsRuns(t *testing.T) {
	fake := &enginetest.Fake{
		Images: map[string]enginetest.FakeImage{"a": program(func(_ context.Context, call enginetest.Call) int { return len(call.Args) })},
		Fail: func(spec engine.Spec) error {
			if spec.Labels["deployster.action"] == "apply" {
				return engine.ErrUnavailable
			}
			return nil
		},
	}
	for _, spec := range []engine.Spec{
		{Image: "a", Args: []string{"x", "y"}},
		{Image: "a", Labels: map[string]string{"deployster.action": "apply"}},
		{Image: "b"},
	} {
		_, _ = fake.Run(t.Context(), spec, engine.IO{})
	}
	runs := fake.Runs()
	require.Len(t, runs, 3, "runs")
	r := runs[0]
	assert.True(t, r.Done && r.Err == nil && r.Exit.Code == 2 && len(r.Spec.Args) == 2, "first: %+v", r)
	r = runs[1]
	assert.True(t, r.Done && errors.Is(r.Err, engine.ErrUnavailable), "second: %+v, want the injected failure", r)
	r = runs[2]
	assert.True(t, r.Done && errors.Is(r.Err, engine.ErrNoImage), "third: %+v, want ErrNoImage", r)
}

func TestFakeShowsWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &enginetest.Fake{Images: map[string]enginetest.FakeImage{"probe": enginetest.FakeProbe()}}
		hold := make(chan struct{})
		ended := make(chan error)
		go func() {
			_, err := fake.Run(t.Context(), engine.Spec{Image: "probe", Hold: hold, Args: []string{"read-exit", "0"}}, engine.IO{Stdin: strings.NewReader("x")})
			ended <- err
		}()
		synctest.Wait()
		r := fake.Runs()[0]
		assert.True(t, !r.Called && !r.Done, "held: %+v", r)
		c := must.Get(fake.Containers(t.Context(), nil))(t)
		assert.True(t, len(c) == 1 && !c[0].Started && !c[0].Running, "held: %+v, want one container that was not started", c)
		assert.Equal(t, 0, fake.MaxRunning(), "programs ran")
		close(hold)
		assert.NoError(t, <-ended)
		r = fake.Runs()[0]
		assert.True(t, r.Called && r.Done, "released: %+v", r)
	})
}

func TestFakeCountsWhatRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &enginetest.Fake{Images: map[string]enginetest.FakeImage{"hang": program(hang)}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		for range 5 {
			go func() {
				_, err := fake.Run(ctx, engine.Spec{Image: "hang"}, engine.IO{})
				ended <- err
			}()
		}
		synctest.Wait()
		assert.Equal(t, 5, fake.MaxRunning(), "ran at once")
		cancel()
		for range 5 {
			assert.ErrorIs(t, <-ended, context.Canceled)
		}
		assert.Empty(t, must.Get(fake.Containers(t.Context(), nil))(t))
	})
}

func TestFakeKeepsTimeOfTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &enginetest.Fake{Images: map[string]enginetest.FakeImage{"hang": program(hang)}}
		began := time.Now()
		_, err := fake.Run(t.Context(), engine.Spec{Image: "hang", Timeout: time.Hour}, engine.IO{})
		took := time.Since(began)
		assert.True(t, errors.Is(err, engine.ErrTimeout) && took == time.Hour, "%v after %s, want ErrTimeout after an hour", err, took)
	})
}

func TestFakePulls(t *testing.T) {
	fake := &enginetest.Fake{
		Images:   map[string]enginetest.FakeImage{"held": program(hang)},
		Registry: map[string]enginetest.FakeImage{"held": program(hang), "far": {Program: hang, Digest: "sha256:feed"}},
	}
	var reports []engine.Progress
	for _, step := range []struct {
		ref    string
		policy engine.PullPolicy
		fails  bool
	}{
		{"held", engine.PullMissing, false},
		{"far", engine.PullNever, true},
		{"far", engine.PullMissing, false},
		{"far", engine.PullMissing, false},
		{"held", engine.PullAlways, false},
		{"nowhere", engine.PullAlways, true},
	} {
		image, err := fake.Image(t.Context(), step.ref, step.policy, func(p engine.Progress) { reports = append(reports, p) })
		if failed := errors.Is(err, engine.ErrNoImage); failed != step.fails || !failed && (err != nil || image.Ref != step.ref) {
			t.Errorf("%s %s: %+v, %v", step.policy, step.ref, image, err)
		}
		assert.False(t, step.ref == "far" && err == nil && image.Digest != "sha256:feed", "%+v has not the digest of the registry", image)
	}
	assert.Equal(t, "[far held]", fmt.Sprint(fake.Pulls()), "pulled")
	assert.True(t, len(reports) != 0 && reports[len(reports)-1].Current == reports[len(reports)-1].Total, "progress %v", reports)
}

func TestFakeIsQuick(t *testing.T) {
	fake := &enginetest.Fake{Images: map[string]enginetest.FakeImage{"probe": enginetest.FakeProbe()}}
	for i := range 5000 {
		var out strings.Builder
		exit, err := fake.Run(t.Context(), engine.Spec{Image: "probe", Args: []string{"cat"}}, engine.IO{Stdin: strings.NewReader(fmt.Sprint(i)), Stdout: &out})
		require.True(t, err == nil && exit.Code == 0 && out.String() == fmt.Sprint(i), "run %d: %+v, %v, %q", i, exit, err, out.String())
	}
}

func TestFakeTranslatesMounts(t *testing.T) {
	call := enginetest.Call{WorkDir: "/w/sub", Spec: engine.Spec{Mounts: []engine.Mount{
		{Source: "/host/w", Target: "/w", ReadOnly: true},
		{Source: "/host/inner", Target: "/w/inner"},
		{Source: "/host/file", Target: "/etc/file"},
	}}}
	for name, want := range map[string]string{
		"/w": "/host/w ro", "/w/a/b": "/host/w/a/b ro", "a": "/host/w/sub/a ro", "../inner/x": "/host/inner/x rw",
		"/w/inner": "/host/inner rw", "/w/innermost": "/host/w/innermost ro", "/etc/file": "/host/file rw",
		"/etc": "", "/wide": "", "/w/../etc/passwd": "",
	} {
		host, readOnly, err := call.Host(name)
		got := host + map[bool]string{true: " ro", false: " rw"}[readOnly]
		if err != nil {
			got = ""
		}
		assert.Equal(t, want, got, "%s is %q (%v), want %q", name, got, err, want)
	}
}

func TestBuildImage(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "tool")
	require.NoError(t, os.WriteFile(binary, []byte("content"), 0o600))
	spec := enginetest.ImageSpec{Binary: binary, Entrypoint: []string{"/tool", "run"}, Env: []string{"A=1"}, WorkDir: "/d", User: "5", Arch: "arm64"}
	build := func() v1.Image { return must.Get(enginetest.BuildImage(spec))(t) }
	image := build()
	config := must.Get(image.ConfigFile())(t)
	if c := config.Config; config.Architecture != "arm64" || config.OS != "linux" || len(c.Entrypoint) != 2 || c.WorkingDir != "/d" || c.User != "5" || len(c.Env) != 1 {
		t.Errorf("%+v", config)
	}
	first := must.Get(enginetest.ImageTar("name:tag", image))(t)
	second := must.Get(enginetest.ImageTar("name:tag", build()))(t)
	assert.True(t, bytes.Equal(first, second), "the same spec gives different images")
	assert.Error(t, must.Fail(enginetest.ImageTar("not a name", image)), "a name that is none is accepted")
	spec.Binary += "-missing"
	assert.ErrorIs(t, must.Fail(enginetest.BuildImage(spec)), os.ErrNotExist)
}

func FuzzFakeLoads(f *testing.F) {
	binary := filepath.Join(f.TempDir(), "tool")
	require.NoError(f, os.WriteFile(binary, []byte("content"), 0o600))
	image := must.Get(enginetest.BuildImage(enginetest.ImageSpec{Binary: binary}))(f)
	tar := must.Get(enginetest.ImageTar("name:tag", image))(f)
	f.Add(tar)
	f.Add(tar[:len(tar)/2])
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, content []byte) {
		loaded := 0
		fake := &enginetest.Fake{Loads: func(string) (enginetest.FakeImage, error) {
			loaded++
			return enginetest.FakeProbe(), nil
		}}
		err := fake.Load(t.Context(), bytes.NewReader(content))
		assert.Equal(t, (loaded > 0), (err == nil), "%d images loaded, error %v", loaded, err)
	})
}
