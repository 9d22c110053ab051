package docker

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
)

func TestClosingWaitsUntilEndedContainersAreRemoved(t *testing.T) {
	watcher := open(t)
	probe := loadProbe(t, watcher)
	e := open(t)
	spec := probe.spec("exit", "0")
	spec.Labels = map[string]string{"deployster.enginetest": rand.Text()}
	for range 3 {
		if _, err := e.Run(t.Context(), spec, engine.IO{}); err != nil {
			t.Fatal(err)
		}
		if shown, err := e.Containers(t.Context(), spec.Labels); err != nil || len(shown) > 0 {
			t.Errorf("shown after its end: %v (%v)", shown, err)
		}
	}
	require.NoError(t, e.Close())
	if left, err := watcher.Containers(t.Context(), spec.Labels); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// Nothing is left of it also where nobody is there any more to remove it.
func TestThePassingAreRemovedByTheEngine(t *testing.T) {
	e := open(t)
	spec := loadProbe(t, e).spec("cat")
	spec.Network, spec.Offline, spec.Passing = "", true, true
	spec.Labels = map[string]string{"deployster.enginetest": rand.Text()}
	in, give := io.Pipe()
	take, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := e.Run(t.Context(), spec, engine.IO{Stdin: in, Stdout: out})
		ended <- errors.Join(err, out.Close())
	}()
	if _, err := io.WriteString(give, "."); err != nil {
		t.Fatal(err)
	}
	if _, err := take.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	running, err := e.Containers(t.Context(), spec.Labels)
	require.True(t, err == nil && len(running) == 1 && running[0].Running, "while it runs: %v (%v)", running, err)
	_ = give.Close()
	require.NoError(t, <-ended)
	if end := <-e.await(t.Context(), running[0].ID, container.WaitConditionRemoved); end.err != nil && !errdefs.IsNotFound(end.err) {
		t.Error(end.err)
	}
	if left, err := e.Containers(t.Context(), spec.Labels); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

func TestEndedRunsWaitWhenTooManyContainersAreBeingRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, slow := newRemovals(), make(chan struct{})
		for i := range removalsAtOnce {
			r.begin(fmt.Sprint(i), func() { <-slow })
		}
		begun := false
		go func() {
			r.begin("one more", func() {})
			begun = true
		}()
		synctest.Wait()
		assert.True(t, !begun, "one more is removed than may be")
		if under := r.now(); len(under) != removalsAtOnce+1 || !under["one more"] {
			t.Errorf("%v count as being removed, want those that wait, too", under)
		}
		close(slow)
		synctest.Wait()
		if under := r.now(); !begun || len(under) > 0 {
			t.Errorf("%v still count as being removed", under)
		}
	})
}

func TestSavedImagesCanBeLoaded(t *testing.T) {
	e := open(t)
	probe := loadProbe(t, e)
	saved, err := e.Save(t.Context(), probe.ref)
	require.NoError(t, err)
	tar, err := io.ReadAll(saved)
	require.NoError(t, errors.Join(err, saved.Close()))
	forget(t, e, probe.ref)
	require.NoError(t, e.Load(t.Context(), bytes.NewReader(tar)))
	if _, err := e.Image(t.Context(), probe.ref, engine.PullNever, nil); err != nil {
		t.Error(err)
	}
	_, err = e.Save(t.Context(), "no-such:image")
	checkError(t, err, engine.ErrNoImage, "no-such:image", "docker images")
}
