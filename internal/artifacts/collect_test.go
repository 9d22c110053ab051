package artifacts_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/internal/artifacts"
)

// newStore is a store in a directory that nobody has made yet.
func newStore(t *testing.T) (s *artifacts.Store, dir string) {
	dir = filepath.Join(t.TempDir(), "artifacts")
	return artifacts.In(dir), dir
}

// write makes files by their paths: "link -> TARGET" is a link, a path that ends in "/" a
// directory, and "!" at the end of a path makes a program.
func write(t *testing.T, files map[string]string) (dir string) {
	dir = t.TempDir()
	for at, content := range files {
		path := filepath.Join(dir, strings.TrimSuffix(at, "!"))
		if strings.HasSuffix(at, "/") {
			must(t, os.MkdirAll(path, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, is := strings.CutPrefix(content, "-> "); is {
			must(t, os.Symlink(target, path))
			continue
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(at, "!") {
			mode = 0o755
		}
		must(t, os.WriteFile(path, []byte(content), mode))
	}
	return dir
}

func must(t *testing.T, err error) { require.NoError(t, err) }

func collect(t *testing.T, s *artifacts.Store, dir string) artifacts.Artifact {
	a, err := s.Collect(t.Context(), dir, artifacts.Limits{})
	must(t, err)
	return a
}

// tree lists what is below a directory, as it is unpacked.
func tree(t *testing.T, dir string) (all []string) {
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		text := path[len(dir)+1:] + " " + info.Mode().String()
		if e.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			must(t, err)
			text = path[len(dir)+1:] + " -> " + target
		} else if e.Type().IsRegular() {
			content, err := os.ReadFile(path)
			must(t, err)
			text += " " + string(content)
		}
		all = append(all, text)
		return nil
	}))
	return all
}

var toolchain = map[string]string{
	"bin/gcc!": "#!/bin/sh\n", "bin/cc": "-> gcc", "lib/": "", "lib-2/x": "1", "lib/libc.so": "-> ../bin/./gcc", "README": "hello\n", "empty/": "", "zero": "",
}

func TestADirectoryIsKeptAndUnpackedAgain(t *testing.T) {
	s, dir := newStore(t)
	a := collect(t, s, write(t, toolchain))
	assert.True(t, a.Files == 10 && a.Size == 17, "it has %d entries of %d bytes", a.Files, a.Size)
	// On all machines, and with every version of the program.
	assert.Equal(t, "sha256:117dc7a3a5249cb98eeeeab7bf5e8f52cade1f12ff911080a2d623260a186bab", a.Digest)
	files, err := s.Directory(t.Context(), a.Digest)
	must(t, err)
	want := []string{
		"README -r--r--r-- hello\n", "bin dr-xr-xr-x", "bin/cc -> gcc", "bin/gcc -r-xr-xr-x #!/bin/sh\n", "empty dr-xr-xr-x",
		"lib dr-xr-xr-x", "lib/libc.so -> ../bin/./gcc", "lib-2 dr-xr-xr-x", "lib-2/x -r--r--r-- 1", "zero -r--r--r-- ",
	}
	got := tree(t, files)
	assert.True(t, slices.Equal(got, slices.Sorted(slices.Values(want))) || slices.Equal(got, want), "unpacked is %q", got)
	info, err := os.Stat(files)
	assert.True(t, err == nil && info.Mode().Perm() == 0o555, "it is %v, %v", info.Mode(), err)
	info, err = os.Stat(dir)
	assert.True(t, err == nil && info.Mode().Perm() == 0o700, "the store is %v, %v", info.Mode(), err)
	again := collect(t, s, files)
	assert.True(t, again == a, "what was unpacked makes %v, not %v", again, a)
	must(t, s.Verify(t.Context(), a.Digest))
	assert.True(t, s.Has(a.Digest) && !s.Has("sha256:"+strings.Repeat("0", 64)) && !s.Has("x"), "it has not what it has, or has what it has not")
	wantNothingHalf(t, dir)
}

// Other versions of Go must write the same.
func TestTheDigestOfUnusualNamesStays(t *testing.T) {
	s, _ := newStore(t)
	long := strings.Repeat("long name ", 20)
	a := collect(t, s, write(t, map[string]string{"é/" + long + "!": "1", "é/l": "-> " + long, long + "/" + long + "/x": "2", "l": "-> é/l", "~": "3"}))
	assert.Equal(t, "sha256:881410a497afc7743fcab0ce5f825dc9506f74c559a500c2c69a4bd62d7fa381", a.Digest)
	assert.NoError(t, errOf(s.Directory(t.Context(), a.Digest)))
}

func TestAStoreMayBeALink(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "artifacts")
	must(t, os.Symlink(t.TempDir(), dir))
	s := artifacts.In(dir)
	digest, _ := unpacked(t, s, toolchain)
	must(t, s.Verify(t.Context(), digest))
	must(t, s.Remove(t.Context(), digest))
}

func wantNothingHalf(t *testing.T, dir string) {
	left, err := os.ReadDir(filepath.Join(dir, "tmp"))
	assert.True(t, err == nil && len(left) == 0, "left are %v, %v", left, err)
}

func TestTheDigestIsThatOfTheContent(t *testing.T) {
	s, _ := newStore(t)
	digest := collect(t, s, write(t, toolchain)).Digest
	same := map[string]func(dir string) error{
		"other times":       func(dir string) error { return os.Chtimes(filepath.Join(dir, "README"), time.Now(), time.Unix(0, 0)) },
		"other permissions": func(dir string) error { return os.Chmod(filepath.Join(dir, "README"), 0o640) },
		"set user id":       func(dir string) error { return os.Chmod(filepath.Join(dir, "bin", "gcc"), 0o755|fs.ModeSetuid) },
		"another order": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "zero")), os.WriteFile(filepath.Join(dir, "zero"), nil, 0o600))
		},
		"a second name": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "zero")), os.WriteFile(filepath.Join(dir, "..", "other"), nil, 0o600), os.Link(filepath.Join(dir, "..", "other"), filepath.Join(dir, "zero")))
		},
	}
	for what, change := range same {
		dir := write(t, toolchain)
		must(t, change(dir))
		assert.Equal(t, digest, collect(t, s, dir).Digest, "%s make another artifact", what)
	}
	other := map[string]func(dir string) error{
		"a byte":      func(dir string) error { return os.WriteFile(filepath.Join(dir, "README"), []byte("hallo\n"), 0o600) },
		"a name":      func(dir string) error { return os.Rename(filepath.Join(dir, "README"), filepath.Join(dir, "readme")) },
		"a mode":      func(dir string) error { return os.Chmod(filepath.Join(dir, "README"), 0o700) },
		"a directory": func(dir string) error { return os.Remove(filepath.Join(dir, "empty")) },
		"a link": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "bin", "cc")), os.Symlink("./gcc", filepath.Join(dir, "bin", "cc")))
		},
	}
	for what, change := range other {
		dir := write(t, toolchain)
		must(t, change(dir))
		a := collect(t, s, dir)
		assert.True(t, a.Digest != digest, "%s makes no difference", what)
	}
}

func TestWhatCannotBeAnArtifactIsRefusedWithItsPathAndTheRemedy(t *testing.T) {
	deep := strings.Repeat("d/", 257)
	tests := map[string]struct {
		files  map[string]string
		make   func(dir string) error
		limits artifacts.Limits
		want   string
	}{
		"an absolute link":        {files: map[string]string{"bin/sh": "-> /bin/sh"}, want: `"bin/sh" is a link to "/bin/sh", which is not in the directory wherever that is mounted; let it be relative`},
		"a link out of it":        {files: map[string]string{"bin/sh": "-> ../../bin/sh"}, want: `"bin/sh" is a link to "../../bin/sh", which leaves the directory; let it be relative`},
		"a link to what is above": {files: map[string]string{"up": "-> .."}, want: `"up" is a link to "..", which leaves the directory`},
		"a way out over a link":   {files: map[string]string{"p/s": "-> ../t", "t/x": "", "p/l": "-> s/../../f"}, want: `"p/l" is a link to "s/../../f", with ".." after a name`},
		"a pipe":                  {make: func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600) }, want: `"pipe" is a FIFO, not a file, a link or a directory; remove it`},
		"a socket":                {make: func(dir string) error { return unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK|0o600, 0) }, want: `"socket" is a socket, not`},
		"too many files":          {files: map[string]string{"a/1": "", "a/2": "", "b": ""}, limits: artifacts.Limits{Files: 3}, want: "there are more than 3 files, links and directories; leave out"},
		"too many bytes":          {files: map[string]string{"a": "123", "b": "456"}, limits: artifacts.Limits{Bytes: 5}, want: `"b" and what is before it have more than 5 bytes; leave out`},
		"a file of holes":         {files: map[string]string{"a": ""}, make: func(dir string) error { return os.Truncate(filepath.Join(dir, "a"), 1<<42) }, want: `"a" and what is before it have more than 17179869184 bytes`},
		"control characters":      {files: map[string]string{"d/a\x1b[2J": ""}, want: `"d/a\x1b[2J" has a name with control characters, which what lists it would take for commands; rename it`},
		"no UTF-8":                {files: map[string]string{"a\xff": ""}, want: `"a\xff" has a name that is not valid UTF-8`},
		"a link to no UTF-8":      {files: map[string]string{"a": "-> b\xff"}, want: `"a" is a link to "b\xff", which has control characters or is not valid UTF-8`},
		"too deep":                {files: map[string]string{deep: ""}, want: `is deeper than 255 directories; make an archive`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, store := newStore(t)
			dir := write(t, test.files)
			if test.make != nil {
				must(t, test.make(dir))
			}
			_, err := s.Collect(t.Context(), dir, test.limits)
			refused := new(artifacts.RefusedError)
			assert.True(t, errors.As(err, &refused) && strings.Contains(err.Error(), test.want) && strings.Contains(err.Error(), dir), "it says %v", err)
			wantNothingHalf(t, store)
			blobs, err := os.ReadDir(filepath.Join(store, "blobs", "sha256"))
			assert.True(t, err == nil && len(blobs) == 0, "stored are %v, %v", blobs, err)
		})
	}
}

// Nobody waits for the listing of what is refused anyway.
func TestAHugeDirectoryIsRefusedBeforeAllOfItIsListed(t *testing.T) {
	s, _ := newStore(t)
	dir := t.TempDir()
	for i := range 3000 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
	}
	refused := new(artifacts.RefusedError)
	_, err := s.Collect(t.Context(), dir, artifacts.Limits{Files: 1000})
	assert.True(t, errors.As(err, &refused), "%v", err)
}

func TestWhatIsCanceledLeavesNothing(t *testing.T) {
	s, dir := newStore(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	assert.ErrorIs(t, errOf(s.Collect(ctx, write(t, toolchain), artifacts.Limits{})), stopped)
	wantNothingHalf(t, dir)
}

func TestAMissingDirectoryIsNoFaultOfTheJob(t *testing.T) {
	s, _ := newStore(t)
	_, err := s.Collect(t.Context(), filepath.Join(t.TempDir(), "none"), artifacts.Limits{})
	refused := new(artifacts.RefusedError)
	assert.True(t, errors.Is(err, syscall.ENOENT) && !errors.As(err, &refused), "it says %v", err)
}

func manifestPath(store, digest string) string {
	return filepath.Join(store, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))
}

func TestArtifactsThatNobodyNeedsArePruned(t *testing.T) {
	s, store := newStore(t)
	old, before := time.Now().Add(-3*artifacts.MinAge), time.Now().Add(-artifacts.MinAge)
	digests := map[string]string{}
	for _, name := range []string{"needed", "young", "old", "again", "mounted"} {
		digests[name] = collect(t, s, write(t, map[string]string{"file": name})).Digest
		require.NoError(t, errOf(s.Directory(t.Context(), digests[name])))
	}
	blobs, err := filepath.Glob(filepath.Join(store, "blobs", "sha256", "*"))
	must(t, err)
	for _, path := range blobs {
		if path != manifestPath(store, digests["young"]) {
			must(t, os.Chtimes(path, old, old))
		}
	}
	collect(t, s, write(t, map[string]string{"file": "again"}))
	require.NoError(t, errOf(s.Directory(t.Context(), digests["mounted"])))
	half := filepath.Join(store, "blobs", "sha256", strings.Repeat("1", 64))
	must(t, os.WriteFile(half, []byte("a layer of no manifest"), 0o600))
	must(t, os.Chtimes(half, old, old))
	must(t, os.MkdirAll(filepath.Join(store, "tmp", "of-the-dead", "copy"), 0o700))
	must(t, os.Chmod(filepath.Join(store, "tmp", "of-the-dead", "copy"), 0o555))
	must(t, os.WriteFile(filepath.Join(store, "tmp", "layer-of-the-dead"), []byte("half"), 0o600))

	var would artifacts.Pruned
	for _, dryRun := range []bool{true, false} {
		pruned, err := s.Prune(t.Context(), before, func(digest string) bool { return digest == digests["needed"] }, dryRun)
		assert.True(t, err == nil && pruned.Count == 1 && pruned.Oldest.Equal(old) && pruned.Bytes >= 2048+22, "dry run %v: it removed %+v, %v", dryRun, pruned, err)
		if dryRun {
			would = pruned
		} else if pruned != would {
			t.Errorf("it removed %+v, not %+v", pruned, would)
		}
	}
	wantPruned(t, s, digests, "old")
	for dir, want := range map[string]int{"blobs/sha256": 8, "unpacked": 4, "tmp": 0} {
		left, err := os.ReadDir(filepath.Join(store, dir))
		assert.True(t, err == nil && len(left) == want, "in %s are %v, %v", dir, left, err)
	}
	pruned, err := artifacts.In(t.TempDir()).Prune(t.Context(), before, nil, false)
	assert.True(t, err == nil && pruned == (artifacts.Pruned{}), "of nothing: %+v, %v", pruned, err)
}

func wantPruned(t *testing.T, s *artifacts.Store, digests map[string]string, gone string) {
	for name, digest := range digests {
		err := s.Verify(t.Context(), digest)
		assert.True(t, name == gone == errors.Is(err, artifacts.ErrMissing) && (name == gone || err == nil), "%s: %v", name, err)
		if name == gone {
			continue
		}
		assert.NoError(t, errOf(s.Directory(t.Context(), digest)), name)
	}
}

func TestWhatIsUnpackedAndNotUsedIsRemoved(t *testing.T) {
	s, store := newStore(t)
	old, before := time.Now().Add(-3*artifacts.MinAge), time.Now().Add(-artifacts.MinAge)
	copies := map[string]string{}
	digests := map[string]string{}
	for _, name := range []string{"old", "young", "used"} {
		digests[name] = collect(t, s, write(t, map[string]string{"file": name})).Digest
		dir, err := s.Directory(t.Context(), digests[name])
		must(t, err)
		copies[name] = dir
		if name != "young" {
			must(t, os.Chtimes(manifestPath(store, digests[name]), old, old))
		}
	}
	for _, dryRun := range []bool{true, false} {
		freed, err := s.PruneCopies(t.Context(), before, func(digest string) bool { return digest == digests["used"] }, dryRun)
		assert.True(t, err == nil && freed >= 3, "dry run %v: it freed %d, %v", dryRun, freed, err)
		for name, dir := range copies {
			_, err := os.Stat(dir)
			assert.True(t, errors.Is(err, os.ErrNotExist) == (name == "old" && !dryRun), "dry run %v: %s: %v", dryRun, name, err)
		}
	}
	wantPruned(t, s, digests, "") // what is gone is unpacked again
	freed, err := artifacts.In(t.TempDir()).PruneCopies(t.Context(), before, nil, false)
	assert.True(t, err == nil && freed == 0, "of nothing: %d, %v", freed, err)
}

func TestAnArtifactIsRemoved(t *testing.T) {
	s, store := newStore(t)
	digest, _ := unpacked(t, s, toolchain)
	for range 2 {
		must(t, s.Remove(t.Context(), digest))
		_, err := s.Directory(t.Context(), digest)
		assert.True(t, !s.Has(digest) && errors.Is(err, artifacts.ErrMissing), "it is there: %v", err)
	}
	for _, dir := range []string{"blobs/sha256", "unpacked", "tmp"} {
		left, err := os.ReadDir(filepath.Join(store, dir))
		assert.True(t, err == nil && len(left) == 0, "in %s are %v, %v", dir, left, err)
	}
	for _, digest := range []string{"", "sha256:../../../etc", "sha256:" + strings.Repeat("A", 64)} {
		assert.ErrorContains(t, s.Remove(t.Context(), digest), "is not the digest of an artifact", "%q", digest)
	}
}

// What is removed at once with being stored and unpacked is there whole, or not at all.
func TestPruningBesideEverythingElse(t *testing.T) {
	s, store := newStore(t)
	dirs := []string{write(t, toolchain), write(t, map[string]string{"a": "1"}), write(t, map[string]string{"b/c": "2"})}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			s := artifacts.In(store)
			for range 15 {
				a, err := s.Collect(t.Context(), dirs[i%len(dirs)], artifacts.Limits{})
				if err != nil {
					t.Error(err)
					return
				}
				files, err := s.Directory(t.Context(), a.Digest)
				assert.True(t, (err == nil || errors.Is(err, artifacts.ErrMissing)) && (err != nil || files != ""), "unpacked: %q, %v", files, err)
				err = s.Verify(t.Context(), a.Digest)
				assert.True(t, err == nil || errors.Is(err, artifacts.ErrMissing), "verified: %v", err)
			}
		})
	}
	for range 2 {
		all.Go(func() {
			for range 40 {
				assert.NoError(t, errOf(artifacts.In(store).Prune(t.Context(), time.Now().Add(time.Hour), func(string) bool { return false }, false)))
			}
		})
	}
	all.Wait()
	for _, dir := range dirs {
		a := collect(t, s, dir)
		assert.NoError(t, errOf(s.Directory(t.Context(), a.Digest)))
		must(t, s.Verify(t.Context(), a.Digest))
	}
	wantNothingHalf(t, store)
}

func errOf[T any](_ T, err error) error { return err }
