package artifacts_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

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
		if err != nil {
			t.Fatal(err)
		}
		if was, there := seen[a.Digest]; there && was != content {
			t.Fatalf("%s and %s are both %s", was, content, a.Digest)
		}
		for digest, was := range seen {
			if was == content && digest != a.Digest {
				t.Fatalf("%s is %s and %s", content, digest, a.Digest)
			}
		}
		seen[a.Digest] = content
		files, err := s.Directory(t.Context(), a.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.Collect(t.Context(), files, artifacts.Limits{}); err != nil || again != a {
			t.Fatalf("again it is %v, %v; not %v", again, err, a)
		}
		if err := errors.Join(s.Verify(t.Context(), a.Digest), s.Remove(t.Context(), a.Digest), os.RemoveAll(dir)); err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprint(entries)
}

// many makes a directory of 10,000 files of 4 KiB.
func many(b *testing.B) (dir string) {
	b.Helper()
	dir = b.TempDir()
	content := make([]byte, 4<<10)
	for i := range 100 {
		at := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(at, 0o755); err != nil {
			b.Fatal(err)
		}
		for j := range 100 {
			copy(content, fmt.Sprint(i, j))
			if err := os.WriteFile(filepath.Join(at, fmt.Sprint(j)), content, 0o600); err != nil {
				b.Fatal(err)
			}
		}
	}
	return dir
}

// BenchmarkTenThousandFiles compares with tar, which neither hashes nor waits for the disk.
func BenchmarkTenThousandFiles(b *testing.B) {
	dir, store := many(b), filepath.Join(b.TempDir(), "artifacts")
	s := artifacts.In(store)
	var digest string
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	made := func() {
		a, err := s.Collect(b.Context(), dir, artifacts.Limits{})
		check(err)
		digest = a.Digest
	}
	b.Run("collect", func(b *testing.B) {
		for b.Loop() {
			if digest != "" {
				b.StopTimer()
				check(s.Remove(b.Context(), digest))
				b.StartTimer()
			}
			made()
		}
	})
	b.Run("collect-tar", func(b *testing.B) {
		for b.Loop() {
			check(exec.CommandContext(b.Context(), "tar", "-C", dir, "-cf", filepath.Join(b.TempDir(), "x.tar"), ".").Run())
		}
	})
	b.Run("unpack", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			check(s.Remove(b.Context(), digest))
			made()
			b.StartTimer()
			_, err := s.Directory(b.Context(), digest)
			check(err)
		}
	})
	archive := filepath.Join(b.TempDir(), "x.tar")
	check(exec.CommandContext(b.Context(), "tar", "-C", dir, "-cf", archive, ".").Run())
	b.Run("unpack-tar", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			to := b.TempDir()
			b.StartTimer()
			check(exec.CommandContext(b.Context(), "tar", "-C", to, "-xf", archive).Run())
		}
	})
	b.Run("again", func(b *testing.B) { // what each job pays that uses it
		for b.Loop() {
			_, err := s.Directory(b.Context(), digest)
			check(err)
		}
	})
}
