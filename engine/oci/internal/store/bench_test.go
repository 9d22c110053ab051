//go:build linux

package store

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkLoadTiny is what a Load costs apart from its bytes.
func BenchmarkLoadTiny(b *testing.B) {
	benchmarkLoad(b, save(b, "web", imageOf(b, tarOf(b, file("a", "1")))))
}

// smallImage is about what a resource type is: one static binary.
func smallImage(b *testing.B) []byte {
	return save(b, "web", imageOf(b, tarOf(b, file("bin/type", strings.Repeat("x", 6<<20)))))
}

func BenchmarkLoad(b *testing.B) { benchmarkLoad(b, smallImage(b)) }

func benchmarkLoad(b *testing.B, packed []byte) {
	s := open(b, b.TempDir())
	for b.Loop() {
		load(b, s, packed)
		b.StopTimer()
		if _, err := s.Prune(b.Context(), func(Image) bool { return false }); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkUnpack is a Load without making it durable.
func BenchmarkUnpack(b *testing.B) {
	content := tarOf(b, file("bin/type", strings.Repeat("x", 6<<20)))
	for b.Loop() {
		b.StopTimer()
		dir := b.TempDir()
		b.StartTimer()
		require.NoError(b, unpack(b.Context(), dir, bytes.NewReader(content), false, layerLimits))
	}
}

func BenchmarkRootfs(b *testing.B) {
	s := open(b, b.TempDir())
	image := load(b, s, smallImage(b))
	for b.Loop() {
		held, err := s.Rootfs(b.Context(), image.ID)
		require.NoError(b, err)
		held.Release()
	}
}

func BenchmarkFind(b *testing.B) {
	for _, images := range []int{1, 100} {
		b.Run(fmt.Sprintf("of %d", images), func(b *testing.B) {
			s := open(b, b.TempDir())
			layer := tarOf(b, file("a", "1"))
			for i := range images {
				load(b, s, save(b, fmt.Sprintf("team/web:%d", i), imageOf(b, layer, tarOf(b, file("b", fmt.Sprint(i))))))
			}
			for b.Loop() {
				if _, err := s.Find("team/web:0"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen is what every command pays once.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	load(b, open(b, dir), smallImage(b))
	for b.Loop() {
		open(b, dir)
	}
}
