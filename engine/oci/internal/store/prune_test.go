//go:build linux

package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
)

func TestPruneKeepsWhatIsWantedAndWhatItNeeds(t *testing.T) {
	s := open(t, t.TempDir())
	shared := tarOf(t, file("shared", "12345"))
	kept := load(t, s, save(t, "kept", imageOf(t, shared)))
	gone := load(t, s, save(t, "gone", imageOf(t, shared, tarOf(t, file("own", "123")))))
	result, err := s.Prune(t.Context(), func(image Image) bool { return slices.Contains(image.Names, "kept:latest") })
	require.NoError(t, err)
	if len(result.Images) != 1 || result.Images[0].ID != gone.ID || result.Images[0].Size != 8 || result.Bytes != 3 {
		t.Errorf("Prune removed %+v, want one image with 3 bytes of its own", result)
	}
	if _, err := s.Find("gone"); !errors.Is(err, engine.ErrNoImage) {
		t.Errorf("gone is found: %v", err)
	}
	checkTree(t, lease(t, s, kept.ID).Layers[0], `shared "12345"`)
	assert.Len(t, namesIn(t, s.layersDir()), 1, "the layers")
	assert.Len(t, namesIn(t, filepath.Join(s.dir, "images")), 1, "the configurations")
}

func TestPruneByAge(t *testing.T) {
	s := open(t, t.TempDir())
	old := load(t, s, save(t, "old", imageOf(t, tarOf(t, file("a", "1")))))
	load(t, s, save(t, "new", imageOf(t, tarOf(t, file("a", "2")))))
	id, err := v1.NewHash(old.ID)
	require.NoError(t, err)
	long := time.Now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(s.imageLock(id), long, long))
	result, err := s.Prune(t.Context(), func(image Image) bool { return time.Since(image.Used) < 24*time.Hour })
	if err != nil || len(result.Images) != 1 || result.Images[0].ID != old.ID {
		t.Errorf("Prune removed %+v, %v; want the old image", result, err)
	}
}

func TestALeaseKeepsItsImageUntilReleased(t *testing.T) {
	s := open(t, t.TempDir())
	image := load(t, s, save(t, "web", imageOf(t, tarOf(t, file("a", "1")))))
	nothing := func(Image) bool { return false }
	first, second := lease(t, s, image.ID), lease(t, s, image.ID)
	for _, held := range []*Lease{first, second} {
		if result, err := s.Prune(t.Context(), nothing); err != nil || len(result.Images) > 0 {
			t.Fatalf("Prune removed %+v, %v", result, err)
		}
		checkTree(t, second.Layers[0], `a "1"`)
		held.Release()
		held.Release()
	}
	if result, err := s.Prune(t.Context(), nothing); err != nil || len(result.Images) != 1 {
		t.Errorf("Prune removed %+v, %v; want the image", result, err)
	}
	checkEmpty(t, s)
}

func TestALeaseIsRefusedForWhatIsPrunedMeanwhile(t *testing.T) {
	s := open(t, t.TempDir())
	image := load(t, s, save(t, "web", imageOf(t, tarOf(t, file("a", "1")))))
	id, err := v1.NewHash(image.ID)
	require.NoError(t, err)
	held, err := try(s.imageLock(id), exclusive) // as Prune does
	require.True(t, err == nil && held != nil, "the image cannot be locked: %v", err)
	done := make(chan error)
	go func() {
		_, err := s.Rootfs(t.Context(), image.ID)
		done <- err
	}()
	err = s.change(t.Context(), func(index *index) error {
		index.remove(id)
		return nil
	})
	require.NoError(t, err)
	held.release()
	checkError(t, <-done, engine.ErrNoImage, image.ID)
}

func TestPruneRemovesWhatInterruptedProcessesLeft(t *testing.T) {
	s := open(t, t.TempDir())
	kept := load(t, s, save(t, "web", imageOf(t, tarOf(t, file("a", "1")))))
	orphan := strings.Repeat("0", 64)
	for _, left := range []string{"tmp/1/layer-x/a", "layers/sha256/" + orphan + "/a", "images/" + orphan + ".json", "images/x.json.new", "locks/image-" + orphan, "locks/layer-" + orphan} {
		path := filepath.Join(s.dir, left)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("12345"), 0o600))
	}
	working, err := s.newWorkspace()
	require.NoError(t, err)
	result, err := s.Prune(t.Context(), func(Image) bool { return true })
	assert.True(t, err == nil && len(result.Images) == 0 && result.Bytes == 10, "Prune removed %+v, %v; want ten bytes", result, err)
	if left := namesIn(t, filepath.Join(s.dir, "tmp")); !slices.Equal(left, []string{filepath.Base(working.dir)}) {
		t.Errorf("left are %v, want what somebody works in", left)
	}
	assert.NoError(t, working.remove())
	lease(t, s, kept.ID).Release()
	if _, err := s.Prune(t.Context(), func(Image) bool { return false }); err != nil {
		t.Error(err)
	}
	checkEmpty(t, s)
}

func TestPruneEndsWithItsContext(t *testing.T) {
	s := open(t, t.TempDir())
	load(t, s, save(t, "web", imageOf(t, tarOf(t, file("a", "1")))))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Prune(ctx, func(Image) bool {
		cancel()
		return false
	})
	checkError(t, err, context.Canceled, "prune images")
	if _, err := s.Prune(t.Context(), func(Image) bool { return false }); err != nil {
		t.Error(err)
	}
	checkEmpty(t, s)
}

func TestAWaitForALockEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := acquire(t.Context(), path, exclusive)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := acquire(ctx, path, shared)
		done <- err
	}()
	cancel()
	checkError(t, <-done, context.Canceled, path)

	// One that was removed while it was waited for is not taken for the one that is there.
	go func() {
		lock, err := acquire(t.Context(), path, exclusive)
		if err == nil && !lock.isAt(path) {
			err = errors.New("it is not at its path")
		}
		done <- err
	}()
	require.NoError(t, os.Remove(path))
	held.release()
	assert.NoError(t, <-done)
}
