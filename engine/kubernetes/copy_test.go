package kubernetes

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/engine"
)

// tree makes files, by their paths; those that end in a slash are directories.
func tree(t *testing.T, files ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, file := range files {
		at := filepath.Join(dir, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		var err error
		if strings.HasSuffix(file, "/") {
			err = os.MkdirAll(at, 0o750)
		} else {
			err = os.WriteFile(at, []byte(file), 0o600)
		}
		require.NoError(t, err)
	}
	return dir
}

// packedNames are the names in the tar of copies.
func packedNames(t *testing.T, c *copied) (names []string) {
	t.Helper()
	return slices.Sorted(maps.Keys(packedModes(t, c)))
}

// packedModes are the modes in it, by names.
func packedModes(t *testing.T, c *copied) map[string]int64 {
	t.Helper()
	modes := map[string]int64{}
	var packed bytes.Buffer
	require.NoError(t, c.pack(&packed))
	for files := tar.NewReader(&packed); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return modes
		}
		require.NoError(t, err)
		modes[header.Name] = header.Mode
	}
}

// A program that runs as another user than the one who copies sees what its Pod has all the same.
func TestWhoRunsInAPodMayReadWhatIsCopiedIntoIt(t *testing.T) {
	dir := tree(t, "secret", "sub/program")
	succeed(t, os.Chmod(filepath.Join(dir, "sub"), 0o700), os.Chmod(filepath.Join(dir, "sub", "program"), 0o740), os.Chmod(dir, 0o711))
	owners := map[string]int64{"0/": 0o711, "0/secret": 0o600, "0/sub/": 0o700, "0/sub/program": 0o740}
	for user, want := range map[string]map[string]int64{
		"": owners, "root": owners, "0:0": owners,
		"someone": {"0/": 0o755, "0/secret": 0o644, "0/sub/": 0o755, "0/sub/program": 0o755},
	} {
		p, err := newPlan(engine.Spec{Args: []string{"x"}, User: user, Mounts: []engine.Mount{{Source: dir, Target: "/w", ReadOnly: true}}}, resolved{}, "r/shim", shimIdle, longestLife)
		succeed(t, err)
		_, err = p.pod(Options{PodSecurity: Baseline})
		succeed(t, err)
		if got := packedModes(t, p.copied); !maps.Equal(got, want) {
			t.Errorf("as user %q: %v, want %v", user, got, want)
		}
	}
}

func TestAPodGetsWhatItMaySee(t *testing.T) {
	dir := tree(t, "open", "sub/file", "sub/.deployster/log", "kept/secret", "kept/mine/other", "empty/")
	require.NoError(t, os.Symlink("open", filepath.Join(dir, "link")))
	got := packedNames(t, &copied{
		mounts: []engine.Mount{{Source: dir, Target: "/w"}, {Source: filepath.Join(dir, "link"), Target: "/one"}},
		hidden: []string{"/w/kept"},
		inner:  []string{"/w", "/one", "/w/kept/mine", "/w/new/place"},
	})
	want := []string{
		"0/", "0/empty/", "0/kept/", "0/kept/mine/", "0/link", "0/new/", "0/new/place/", "0/open", "0/sub/", "0/sub/.deployster/", "0/sub/file",
		"1",
		"2/", "2/mine/",
	}
	assert.True(t, slices.Equal(got, want), "packed\n%q, want\n%q", got, want)
}

func TestWhatCannotBeCopiedIsRefused(t *testing.T) {
	dir := tree(t, "large")
	require.NoError(t, os.Truncate(filepath.Join(dir, "large"), copiedBytes+1))
	short, pipe := t.TempDir(), t.TempDir()
	socket := filepath.Join(short, "s")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	require.NoError(t, unix.Mkfifo(filepath.Join(pipe, "p"), 0o600))
	for source, says := range map[string]string{dir: "more than 64 MiB", socket: "is a socket", short: "/s is a socket", pipe: "/p is a FIFO", filepath.Join(pipe, "p"): "is a FIFO"} {
		c := &copied{mounts: []engine.Mount{{Source: source, Target: "/x"}}}
		err := c.pack(io.Discard)
		if err == nil || !strings.Contains(err.Error(), says) || !errors.As(err, new(*engine.SpecError)) || strings.Contains(err.Error(), "--copy-workspace") {
			t.Errorf("%s: %v, want %q", source, err, says)
		}
		c.workspace = true
		if err := c.pack(io.Discard); says == "more than 64 MiB" && !strings.Contains(err.Error(), "leave --copy-workspace (of a host: copy_workspace) away") {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// Links are copied as links, wherever they lead to: nothing comes into a Pod through them.
func TestNothingIsCopiedThroughALink(t *testing.T) {
	secret := tree(t, "key", "kept/key")
	dir := tree(t, "sub/file")
	for link, to := range map[string]string{"a": filepath.Join(secret, "key"), "b": filepath.Join(secret, "kept"), "sub/c": "../../..", "d": "nowhere"} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	got := packedNames(t, &copied{mounts: []engine.Mount{{Source: dir, Target: "/w"}}})
	if want := []string{"0/", "0/a", "0/b", "0/d", "0/sub/", "0/sub/c", "0/sub/file"}; !slices.Equal(got, want) {
		t.Errorf("packed %q, want %q", got, want)
	}
}

// A link on the way to a plug may be another one when the Pod is there.
func TestALinkIsFollowedToNothingThatIsProtected(t *testing.T) {
	dir := tree(t, "open/file", ".deployster/protected/key")
	plug := filepath.Join(dir, "plug")
	for _, to := range []string{".deployster", ".deployster/protected", ".deployster/protected/key"} {
		succeed(t, os.Symlink("open", plug))
		c := &copied{mounts: []engine.Mount{{Source: plug, Target: "/x"}}}
		succeed(t, c.check(), os.Remove(plug), os.Symlink(to, plug))
		var packed bytes.Buffer
		for attempt, err := range map[string]error{"checked": c.check(), "packed": c.pack(&packed)} {
			if !errors.As(err, new(*engine.SpecError)) || !strings.Contains(err.Error(), "it is within .deployster") || strings.Contains(packed.String(), "key") {
				t.Errorf("%s is %s: %v", to, attempt, err)
			}
		}
		succeed(t, os.Remove(plug))
	}
}

// Somebody who can write to a directory may replace what is in it between two looks.
func TestWhatIsReplacedWhileItIsCopiedIsRefusedAndWhatIsRemovedLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		replace func(t *testing.T, dir, secret string)
		says    string // "" is nothing: it is left out
	}{
		"a file by a link to one below it": {func(t *testing.T, dir, _ string) {
			succeed(t, os.Remove(filepath.Join(dir, "file")), os.Symlink("hidden/key", filepath.Join(dir, "file")))
		}, "file was replaced while it was copied"},
		"a file by a link to one elsewhere": {func(t *testing.T, dir, secret string) {
			succeed(t, os.Remove(filepath.Join(dir, "file")), os.Symlink(secret, filepath.Join(dir, "file")))
		}, "escapes"},
		"a file by a FIFO": {func(t *testing.T, dir, _ string) {
			succeed(t, os.Remove(filepath.Join(dir, "file")), unix.Mkfifo(filepath.Join(dir, "file"), 0o600))
		}, "FIFO"},
		"a directory by a link to another": {func(t *testing.T, dir, _ string) {
			succeed(t, os.RemoveAll(filepath.Join(dir, "sub")), os.Symlink("hidden", filepath.Join(dir, "sub")))
		}, "sub was replaced while it was copied"},
		"a file by nothing":      {func(t *testing.T, dir, _ string) { succeed(t, os.Remove(filepath.Join(dir, "file"))) }, ""},
		"a directory by nothing": {func(t *testing.T, dir, _ string) { succeed(t, os.RemoveAll(filepath.Join(dir, "sub"))) }, ""},
	} {
		dir, secret := tree(t, "file", "hidden/key", "sub/file"), filepath.Join(tree(t, "key"), "key")
		file, err := os.Lstat(filepath.Join(dir, "file"))
		succeed(t, err)
		sub, err := os.Lstat(filepath.Join(dir, "sub"))
		succeed(t, err)
		root, err := os.OpenRoot(dir)
		succeed(t, err)
		c.replace(t, dir, secret)
		var packed bytes.Buffer
		p := &packer{tar: tar.NewWriter(&packed), copied: &copied{}}
		err = errors.Join(p.entry(source{root, "file", dir + "/file", "0/file", "/w/file"}, file, nil), p.entry(source{root, "sub", dir + "/sub", "0/sub", "/w/sub"}, sub, map[string]bool{}))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || strings.Contains(packed.String(), "key") {
			t.Errorf("%s: %v, want %q; it packed %q", name, err, c.says, packed.String())
		}
		succeed(t, root.Close())
	}
}

func succeed(t *testing.T, errs ...error) {
	t.Helper()
	require.NoError(t, errors.Join(errs...))
}

// What is hidden is mounted over what is copied, and cannot be where there is no directory for it.
func TestWhatIsHiddenHasAPlaceInWhatIsCopied(t *testing.T) {
	dir := tree(t, "kept/key", "sub/.deployster/below/key")
	p, err := newPlan(engine.Spec{Mounts: []engine.Mount{{Source: dir, Target: "/w", ReadOnly: true}}, Hide: []string{"/w/kept", "/w/sub/.deployster/below"}},
		resolved{}, "r/shim", shimIdle, longestLife)
	succeed(t, err)
	want := []string{"0/", "0/kept/", "0/sub/", "0/sub/.deployster/", "0/sub/.deployster/below/", "1/", "2/"}
	if got := packedNames(t, p.copied); !slices.Equal(got, want) {
		t.Errorf("packed %q, want %q", got, want)
	}
}
