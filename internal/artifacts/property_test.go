package artifacts_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/artifacts"
)

// What is unpacked makes the same artifact again, and two directories make the same one where
// they hold the same, and no others.
func TestWhatIsUnpackedMakesTheSameArtifact(t *testing.T) {
	s, store := newStore(t)
	base := t.TempDir()
	seen := map[string]string{} // content by digest
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		content := draw(t, dir)
		a, err := s.Collect(t.Context(), dir, artifacts.Limits{})
		require.NoError(t, err)
		was, there := seen[a.Digest]
		require.True(t, !there || was == content, "%s and %s are both %s", was, content, a.Digest)
		for digest, was := range seen {
			require.True(t, was != content || digest == a.Digest, "%s is %s and %s", content, digest, a.Digest)
		}
		seen[a.Digest] = content
		files, err := s.Directory(t.Context(), a.Digest)
		require.NoError(t, err)
		again, err := s.Collect(t.Context(), files, artifacts.Limits{})
		require.True(t, err == nil && again == a, "again it is %v, %v; not %v", again, err, a)
		require.NoError(t, errors.Join(s.Verify(t.Context(), a.Digest), s.Remove(t.Context(), a.Digest), os.RemoveAll(dir)))
	})
	wantNothingHalf(t, store)
}

// draw makes a directory, and returns a text that tells what it holds.
func draw(t *rapid.T, dir string) string {
	names := rapid.StringMatching(`[a-c.é -]{1,3}|x{99,101}`).Filter(func(s string) bool { return s != "." && s != ".." })
	entries := map[string]string{"": "d"}
	dirs := []string{""}
	for range rapid.IntRange(0, 12).Draw(t, "entries") {
		at := filepath.Join(rapid.SampledFrom(dirs).Draw(t, "dir"), names.Draw(t, "name"))
		if _, there := entries[at]; there {
			continue
		}
		entries[at] = rapid.SampledFrom([]string{"d", "f", "p", "l"}).Draw(t, "kind")
		switch entries[at] {
		case "d":
			dirs = append(dirs, at)
		case "l":
			entries[at] += names.Draw(t, "target")
		default:
			entries[at] += rapid.StringN(0, 600, 600).Draw(t, "content")
		}
	}
	order := slices.Sorted(maps.Keys(entries)) // a directory before what it holds
	for _, at := range order {
		path := filepath.Join(dir, at)
		var err error
		switch what, content := entries[at][0], entries[at][1:]; what {
		case 'd':
			err = os.MkdirAll(path, 0o755)
		case 'l':
			err = os.Symlink(content, path)
		case 'p':
			err = os.WriteFile(path, []byte(content), 0o700)
		default:
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		require.NoError(t, err)
	}
	return fmt.Sprint(entries)
}
