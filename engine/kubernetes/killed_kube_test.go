//go:build kube

package kubernetes

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
)

// spoken is what a process has written so far.
type spoken struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (s *spoken) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *spoken) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// The process that applies is killed in the middle of an action, whose Pod goes on. The next one
// finds it, waits for it, removes it, and does nothing beside it.
func TestAnActionThatOutlivesItsRunIsWaitedForInACluster(t *testing.T) {
	t.Parallel()
	program := enginetest.Binary(t, "github.com/deployster-go/deployster/internal/cli/testdata/slowtype", runtime.GOARCH)
	for kind, entrypoint := range map[string][]string{"a Pod of its own": {"/slowtype", "one-shot"}, "a process that serves": {"/slowtype"}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, Restricted)
			image, err := enginetest.BuildImage(enginetest.ImageSpec{Binary: program, Path: "/slowtype", Entrypoint: entrypoint})
			must(t, err)
			ref, err := name.NewTag(f.cluster.Registry+"/test/slowtype:"+hash(kind), name.Insecure)
			must(t, err)
			must(t, remote.Write(ref, image))
			source, directory := f.volume(t)
			thing := func(name string) string { return filepath.Join(directory, name) }
			workspace := t.TempDir()
			manifest := `plugs: {dir: {path: "` + source + `"}}
resources:
  a: {type: "` + ref.String() + `", config: {value: one}}
`
			must(t, os.WriteFile(filepath.Join(workspace, "m.yaml"), []byte(manifest), 0o600))
			must(t, os.WriteFile(thing("a.hold"), nil, 0o600))
			var heard [2]spoken
			first := f.command(t, workspace, "apply", "m.yaml", "--confirm", "NO")
			first.Stdout, first.Stderr = &heard[0], &heard[0]
			must(t, first.Start())
			kubetest.Until(t, "the action is at work", func() (string, bool) {
				_, err := os.Stat(thing("a.busy"))
				return heard[0].String(), err == nil
			})
			must(t, first.Process.Kill())
			_ = first.Wait()
			left, err := f.Containers(t.Context(), map[string]string{"deployster.run": ""})
			if err != nil || !slices.ContainsFunc(left, func(c engine.Container) bool { return c.Running }) {
				t.Fatalf("the killed run left %v, %v", left, err)
			}

			second := f.command(t, workspace, "apply", "m.yaml", "--confirm", "NO", "--output", "json")
			second.Stdout, second.Stderr = &heard[1], &heard[1]
			must(t, second.Start())
			kubetest.Until(t, "it waits for what is left", func() (string, bool) {
				said := heard[1].String()
				return said, strings.Contains(said, "left running")
			})
			must(t, os.Remove(thing("a.hold")))
			said := heard[1].String
			if err := second.Wait(); err != nil || strings.Contains(said(), `"type":"action-started"`) {
				t.Errorf("the second run: %v\n%s", err, said())
			}
			if content, err := os.ReadFile(thing("a")); err != nil || string(content) != "one" {
				t.Errorf("the action of the killed run made %q, %v", content, err)
			}
			if _, err := os.Stat(thing("two-at-once")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the action ran twice at once: %v", err)
			}
			f.noneLeft(t)
		})
	}
}
