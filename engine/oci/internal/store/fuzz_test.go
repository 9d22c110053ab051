//go:build linux

package store

import (
	"bytes"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

func FuzzLoad(f *testing.F) {
	content := tarOf(f, file("a", "1"))
	image := imageOf(f, content)
	f.Add(save(f, "web", image))
	f.Add(gzipped(f, save(f, "web", image)))
	f.Add(tarOfDir(f, layoutOf(f, named(image, fullNameAnnotation, "web"), variant(image, amd64))))
	f.Add(tarOfDir(f, layoutOf(f, named(imageWith(f, types.OCILayerZStd, zstandard(f, content), content), refNameAnnotation, "web:1"))))
	f.Fuzz(func(t *testing.T, packed []byte) {
		s := open(t, t.TempDir())
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
		f.Add(tarOf(f, c.entries...))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		_, _ = unpackBeside(t, content, limits{bytes: 1 << 20, entries: 100, names: 1 << 16})
	})
}
