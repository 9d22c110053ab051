//go:build linux

package store

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/waittest"
)

func TestALoadKilledWhileItReadsLeavesNothing(t *testing.T) {
	packed := save(t, "web", imageOf(t, tarOf(t, file("a", strings.Repeat("a", 5000))), tarOf(t, file("b", "1"))))
	for part := range 5 {
		t.Run(fmt.Sprintf("after %d quarters", part), func(t *testing.T) {
			dir := t.TempDir()
			open(t, dir)
			read, write, err := os.Pipe()
			require.NoError(t, err)
			killed(t, other(t, "load", dir, "", read), func() {
				waittest.Until(t, func() bool { return len(namesIn(t, filepath.Join(dir, "tmp"))) > 0 }, "the process to begin")
				until := len(packed) * part / 4
				if part == 4 {
					until-- // but not to its end, when it would go on
				}
				if _, err := write.Write(packed[:until]); err != nil {
					t.Error(err)
				}
			})
			read.Close()
			write.Close()
			s := open(t, dir)
			if left := namesIn(t, filepath.Join(dir, "tmp")); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
			if _, err := s.Prune(t.Context(), func(Image) bool { return true }); err != nil {
				t.Error(err)
			}
			checkEmpty(t, s)
			load(t, s, packed)
		})
	}
}

func TestALoadKilledBeforeItIsEnteredLeavesWholeLayers(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	image := imageOf(t, tarOf(t, file("a", "1")), tarOf(t, file("b", "2")))
	packed := save(t, "web", image)
	index, err := acquire(t.Context(), s.indexLock(), exclusive)
	require.NoError(t, err)
	killed(t, other(t, "load", dir, "", strings.NewReader(string(packed))), func() {
		waittest.Until(t, func() bool { return len(namesIn(t, s.layersDir())) == 2 }, "its layers")
	})
	index.release()
	s = open(t, dir)
	if _, err := s.Find("web"); err == nil {
		t.Error("the image is there")
	}
	loaded := load(t, s, packed)
	checkTree(t, lease(t, s, loaded.ID).Layers[0], `b "2"`)
	if left := namesIn(t, filepath.Join(dir, "tmp")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestAPullKilledAnywhereCanBeRepeated(t *testing.T) {
	first, second := tarOf(t, file("a", strings.Repeat("a", 200_000)), file("b", "1")), tarOf(t, file("c", strings.Repeat("c", 200_000)), file("d", "1"))
	image := imageOf(t, first, second)
	layers, err := image.Layers()
	require.NoError(t, err)
	digest := func(i int) string {
		sum, err := layers[i].Digest()
		require.NoError(t, err)
		return "/blobs/" + sum.String()
	}
	config, err := image.ConfigName()
	require.NoError(t, err)
	for _, c := range []struct {
		name  string
		stall string // part of the path of the answer that stops
		after int    // its bytes
		until func(t *testing.T, s *Store) bool
	}{
		{"before the manifest", "/manifests/", 0, nil},
		{"before the configuration", config.Hex, 0, nil},
		{"before the first layer", digest(0), 0, nil},
		{"within the first file", digest(0), 100_000, unpacking},
		{"between two files", digest(0), 201_728 - 1024, unpacking},
		{"before the end of the last layer", digest(1), len(second) - 1, unpacking},
		{"after the first layer", digest(1), 0, func(t *testing.T, s *Store) bool { return len(namesIn(t, s.layersDir())) == 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			registry := serveRegistry(t, "", "")
			ref, _ := registry.push(t, "web", image)
			stalled := registry.stall(c.stall, c.after)
			killed(t, other(t, "pull", dir, ref, nil), func() {
				<-stalled
				if c.until != nil {
					waittest.Until(t, func() bool { return c.until(t, s) }, "its files")
				}
			})
			registry.goOn()

			s = open(t, dir)
			if left := namesIn(t, filepath.Join(dir, "tmp")); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
			if images, err := s.List(); err != nil || len(images) > 0 {
				t.Errorf("the store lists %v, %v; want nothing", images, err)
			}
			pulled, err := s.Pull(t.Context(), ref, nil)
			require.NoError(t, err)
			held := lease(t, s, pulled.ID)
			checkTree(t, held.Layers[1], fmt.Sprintf("a %q", strings.Repeat("a", 200_000)), `b "1"`)
			checkTree(t, held.Layers[0], fmt.Sprintf("c %q", strings.Repeat("c", 200_000)), `d "1"`)
		})
	}
}

// unpacking reports whether there is a file in a layer that is being unpacked.
func unpacking(t *testing.T, s *Store) bool {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.dir, "tmp", "*", "layer-*", "*"))
	require.NoError(t, err)
	return len(found) > 0
}

func TestTheLeaseOfAnotherProcessHoldsUntilItDies(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	load(t, s, save(t, "web", imageOf(t, tarOf(t, file("a", "1")))))
	nothing := func(Image) bool { return false }
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	defer write.Close()
	cmd := other(t, "hold", dir, "web", read)
	said, err := cmd.StdoutPipe()
	require.NoError(t, err)
	killed(t, cmd, func() {
		if line, err := bufio.NewReader(said).ReadString('\n'); line != "held\n" {
			t.Fatalf("it says %q, %v", line, err)
		}
		if result, err := s.Prune(t.Context(), nothing); err != nil || len(result.Images) != 0 || result.Bytes != 0 {
			t.Errorf("Prune removed %+v, %v; want nothing, because it is in use", result, err)
		}
		if _, err := s.Find("web"); err != nil {
			t.Error(err)
		}
	})
	if result, err := s.Prune(t.Context(), nothing); err != nil || len(result.Images) != 1 || result.Bytes != 1 {
		t.Errorf("Prune removed %+v, %v; want the image of one byte", result, err)
	}
	checkEmpty(t, s)
}
