package kubernetes

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine"
)

// tree makes files, by their paths; those that end in a slash are directories.
func tree(t *testing.T, files ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, file := range files {
		at := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if strings.HasSuffix(file, "/") {
			err = os.MkdirAll(at, 0o750)
		} else {
			err = os.WriteFile(at, []byte(file), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// packedNames are the names in the tar of copies.
func packedNames(t *testing.T, c *copied) (names []string) {
	t.Helper()
	var packed bytes.Buffer
	if err := c.pack(&packed); err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(&packed); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
}

func TestAPodGetsWhatItMaySee(t *testing.T) {
	dir := tree(t, "open", "sub/file", "sub/.deployster/log", "kept/secret", "kept/mine/other", "empty/")
	if err := os.Symlink("open", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
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
	if !slices.Equal(got, want) {
		t.Errorf("packed\n%q, want\n%q", got, want)
	}
}

func TestWhatCannotBeCopiedIsRefused(t *testing.T) {
	dir := tree(t, "large")
	if err := os.Truncate(filepath.Join(dir, "large"), copiedBytes+1); err != nil {
		t.Fatal(err)
	}
	short := t.TempDir()
	socket := filepath.Join(short, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	for source, says := range map[string]string{dir: "more than 64 MiB", socket: "is a socket", short: "is a socket"} {
		c := &copied{mounts: []engine.Mount{{Source: source, Target: "/x"}}}
		if err := c.pack(io.Discard); err == nil || !strings.Contains(err.Error(), says) || !errors.As(err, new(*engine.SpecError)) {
			t.Errorf("%s: %v, want %q", source, err, says)
		}
	}
}
