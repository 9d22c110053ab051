//go:build linux

package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
)

// Run the fuzzers with -fuzzminimizetime 10x. Which code an input reaches differs
// from time to time here, and by default Go spends a minute on making each
// new input smaller.

// mostFuzzed bounds the inputs of fuzzers: what is longer takes longer, and says
// no more.
const mostFuzzed = 32 << 10

// scratch returns a directory for each execution of a fuzzer, in memory where
// there is such: on a disk, what an execution waits for is the disk. What the
// last one left is removed first.
func scratch(f *testing.F) func(t testing.TB) string {
	f.Helper()
	parent := "/dev/shm"
	if info, err := os.Stat(parent); err != nil || !info.IsDir() {
		parent = ""
	}
	made, err := os.MkdirTemp(parent, "deployster-fuzz-")
	require.NoError(f, err)
	f.Cleanup(func() { _ = os.RemoveAll(made) })
	directory := filepath.Join(made, "here")
	return func(t testing.TB) string {
		require.NoError(t, errors.Join(os.RemoveAll(directory), os.Mkdir(directory, 0o700)))
		return directory
	}
}

// add makes an input of a seed, if it is not too long for one.
func add(f *testing.F, seed []byte) {
	if len(seed) <= mostFuzzed {
		f.Add(seed)
	}
}

func FuzzLoad(f *testing.F) {
	content := tarOf(f, file("a", "1"))
	image := imageOf(f, content)
	add(f, save(f, "web", image))
	add(f, gzipped(f, save(f, "web", image)))
	add(f, tarOfDir(f, layoutOf(f, named(image, fullNameAnnotation, "web"), variant(image, amd64))))
	add(f, tarOfDir(f, layoutOf(f, named(imageWith(f, types.OCILayerZStd, zstandard(f, content), content), refNameAnnotation, "web:1"))))
	directory := scratch(f)
	f.Fuzz(func(t *testing.T, packed []byte) {
		if len(packed) > mostFuzzed {
			return
		}
		s := open(t, directory(t))
		images, err := s.Load(t.Context(), bytes.NewReader(packed), nil)
		if err != nil {
			checkEmpty(t, s)
		}
		for _, image := range images {
			lease(t, s, image.ID)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	for _, c := range hostileLayers {
		add(f, tarOf(f, c.entries...))
	}
	directory := scratch(f)
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > mostFuzzed {
			return
		}
		_, _ = unpackIn(t, directory(t), content, limits{bytes: 1 << 20, entries: 100, names: 1 << 16})
	})
}
