//go:build linux

package store

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// small bounds what a test unpacks.
var small = limits{bytes: 1 << 20, entries: 1000, names: 1 << 16}

// unpackBeside unpacks into a directory that has a neighbour, which no layer may
// touch.
func unpackBeside(t testing.TB, content []byte, limit limits) (string, error) {
	t.Helper()
	return unpackIn(t, t.TempDir(), content, limit)
}

func unpackIn(t testing.TB, parent string, content []byte, limit limits) (string, error) {
	t.Helper()
	dir, neighbour := filepath.Join(parent, "root"), filepath.Join(parent, "outside")
	for _, made := range []string{dir, neighbour} {
		require.NoError(t, makeDir(made))
	}
	require.NoError(t, os.WriteFile(filepath.Join(neighbour, "canary"), []byte("alive"), 0o600))
	err := unpack(t.Context(), dir, bytes.NewReader(content), os.Geteuid() != 0, limit)
	if got, _ := tree(neighbour); len(got) != 1 || got[0] != `canary "alive"` {
		t.Errorf("the layer reached out: beside it is %q", got)
	}
	assert.True(t, !isOpaque(neighbour, os.Geteuid() != 0), "the layer reached out: the directory beside it is opaque")
	if names, _ := os.ReadDir(parent); len(names) != 2 {
		t.Errorf("the layer reached out: beside it are %v", names)
	}
	return dir, err
}

func entryOf(kind byte, name string) tarEntry {
	return tarEntry{Header: tar.Header{Typeflag: kind, Name: name, Mode: 0o644}}
}

func device(kind byte, name string, major, minor int64) tarEntry {
	made := entryOf(kind, name)
	made.Devmajor, made.Devminor = major, minor
	return made
}

var hostileLayers = []struct {
	name    string
	entries []tarEntry
	leaves  []string // what is unpacked
	fails   string   // or why it is not
}{
	{name: "names that climb stay inside",
		entries: []tarEntry{file("../../evil", "1"), file("a/../../../b", "2"), directory("../outside", 0o755), file("../outside/canary", "3")},
		leaves:  []string{`b "2"`, `evil "1"`, `outside/`, `outside/canary "3"`}},
	{name: "absolute names stay inside", entries: []tarEntry{file("/etc/passwd", "1")}, leaves: []string{`etc/`, `etc/passwd "1"`}},
	{name: "an absolute symlink is kept, and leads inside",
		entries: []tarEntry{symlink("link", "/etc"), directory("etc", 0o755), file("link/passwd", "1")},
		leaves:  []string{`etc/`, `etc/passwd "1"`, `link -> /etc`}},
	{name: "a symlink that climbs is kept, and leads inside",
		entries: []tarEntry{symlink("link", "../../outside"), file("link/canary", "1")},
		leaves:  []string{`link -> ../../outside`, `outside/`, `outside/canary "1"`}},
	{name: "symlinks that lead to each other end",
		entries: []tarEntry{symlink("a", "b"), symlink("b", "a"), file("a/file", "1")}, fails: "too many links"},
	{name: "a file replaces a symlink and does not follow it",
		entries: []tarEntry{symlink("link", "../outside/canary"), file("link", "1")}, leaves: []string{`link "1"`}},
	{name: "a directory replaces a symlink and does not follow it",
		entries: []tarEntry{symlink("link", "../outside"), directory("link", 0o700), file("link/canary", "1")},
		leaves:  []string{`link/`, `link/canary "1"`}},
	{name: "the root stays a directory",
		entries: []tarEntry{file("a", "1"), symlink("./", "/etc"), directory(".", 0o700), file("b", "2")},
		leaves:  []string{`a "1"`, `b "2"`}},
	{name: "hard links lead to the same layer",
		entries: []tarEntry{file("a", "1"), directory("d", 0o755), hardLink("d/b", "a"), hardLink("c", "/a")},
		leaves:  []string{`a "1"`, `c "1"`, `d/`, `d/b "1"`}},
	{name: "a hard link does not climb", entries: []tarEntry{hardLink("stolen", "../outside/canary")}, fails: "no such file"},
	{name: "a hard link does not follow a symlink out",
		entries: []tarEntry{symlink("dir", "../outside"), hardLink("stolen", "dir/canary")}, fails: "no such file"},
	{name: "a hard link to a symlink is one to the symlink",
		entries: []tarEntry{symlink("link", "../outside/canary"), hardLink("copy", "link")},
		leaves:  []string{`copy -> ../outside/canary`, `link -> ../outside/canary`}},
	{name: "a hard link to a later entry", entries: []tarEntry{hardLink("a", "b"), file("b", "1")}, fails: "no such file"},
	{name: "a hard link to a directory",
		entries: []tarEntry{directory("d", 0o755), hardLink("a", "d")}, fails: "operation not permitted"},
	{name: "devices are left out, also those that would delete",
		entries: []tarEntry{device(tar.TypeChar, "null", 1, 3), device(tar.TypeBlock, "disk", 8, 0), device(tar.TypeChar, "deleted", 0, 0), file("a", "1")},
		leaves:  []string{`a "1"`}},
	{name: "pipes are kept", entries: []tarEntry{entryOf(tar.TypeFifo, "pipe")}, leaves: []string{`pipe p---------`}},
	{name: "a type that nobody knows", entries: []tarEntry{entryOf('Z', "what")}, fails: "type"},
	{name: "a file below a file", entries: []tarEntry{file("a", "1"), file("a/b", "2")}, fails: "not a directory"},
	{name: "a name that is too long", entries: []tarEntry{file(strings.Repeat("a", 300), "1")}, fails: "file name too long"},
	{name: "a path that is too long", entries: []tarEntry{file(strings.Repeat("a/", 3000)+"a", "1")}, fails: "4096 bytes"},
	{name: "an owner that is no number of a user",
		entries: []tarEntry{{Header: tar.Header{Typeflag: tar.TypeReg, Name: "a", Uid: 1 << 32}}}, fails: "owner 4294967296:0"},
	{name: "a whiteout becomes a device",
		entries: []tarEntry{directory("d", 0o755), file("d/.wh.gone", "")}, leaves: []string{`d/`, `d/gone Dc---------`}},
	{name: "a whiteout does not delete what its own layer brings",
		entries: []tarEntry{file("a", "1"), file(".wh.a", ""), file(".wh.b", ""), file("b", "2")},
		leaves:  []string{`a "1"`, `b "2"`}},
	{name: "a whiteout has no name", entries: []tarEntry{file(".wh.", "")}, fails: "invalid whiteout"},
	{name: "a whiteout climbs", entries: []tarEntry{directory("d", 0o755), file("d/.wh...", "")}, fails: "invalid whiteout"},
	{name: "a whiteout below a symlink stays inside",
		entries: []tarEntry{symlink("link", "../outside"), file("link/.wh.canary", "")},
		leaves:  []string{`link -> ../outside`, `outside/`, `outside/canary Dc---------`}},
	{name: "a whiteout whose directory becomes a symlink out",
		entries: []tarEntry{file("d/.wh.other", ""), file("d/.wh..wh..opq", ""), symlink("d", "../outside")}, fails: "escapes"},
	{name: "a whiteout whose directory becomes an absolute symlink",
		entries: []tarEntry{file("d/.wh.other", ""), symlink("d", "/tmp")}, fails: "escapes"},
	{name: "a whiteout whose directory becomes a file",
		entries: []tarEntry{directory("d", 0o755), file("d/.wh.other", ""), file("d/.wh..wh..opq", ""), file("d", "1")},
		leaves:  []string{`d "1"`}},
	{name: "a whiteout whose directory becomes a pipe",
		entries: []tarEntry{directory("d", 0o755), file("d/.wh.other", ""), file("d/.wh..wh..opq", ""), entryOf(tar.TypeFifo, "d")},
		leaves:  []string{`d p---------`}},
	{name: "notes of a union file system", entries: []tarEntry{file(".wh..wh.plnk", ""), file(".wh..wh.aufs", "")}},
	{name: "a directory that may not be entered, and a file in it",
		entries: []tarEntry{directory("d", 0), {Header: tar.Header{Typeflag: tar.TypeReg, Name: "d/a", Mode: 0}, content: "1"}, file("d/.wh.b", "")},
		leaves:  []string{`d/`, `d/a "1"`, `d/b Dc---------`}},
	{name: "notes for the whole archive",
		entries: []tarEntry{{Header: tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "1"}}}, file("a", "1")},
		leaves:  []string{`a "1"`}},
}

func TestHostileLayers(t *testing.T) {
	for _, c := range hostileLayers {
		t.Run(c.name, func(t *testing.T) {
			dir, err := unpackBeside(t, tarOf(t, c.entries...), small)
			if c.fails != "" {
				checkError(t, err, nil, c.fails)
				return
			}
			require.NoError(t, err)
			checkTree(t, dir, c.leaves...)
		})
	}
}

func TestOpaqueDirectoriesAreMarked(t *testing.T) {
	dir, err := unpackBeside(t, tarOf(t,
		directory("opaque", 0o755), file("opaque/.wh..wh..opq", ""), file("opaque/new", ""),
		file(".wh.again", ""), directory("again", 0o755), file("again/new", ""),
		directory("plain", 0o755),
	), small)
	require.NoError(t, err)
	checkTree(t, dir, `again/`, `again/new ""`, `opaque/`, `opaque/new ""`, `plain/`)
	for name, want := range map[string]bool{"opaque": true, "again": true, "plain": false} {
		if got := isOpaque(filepath.Join(dir, name), os.Geteuid() != 0); got != want {
			t.Errorf("%s is opaque: %t, want %t", name, got, want)
		}
	}
}

func TestOwnersModesAndAttributes(t *testing.T) {
	owned := tarEntry{Header: tar.Header{Typeflag: tar.TypeReg, Name: "owned", Mode: 0o4711, Uid: os.Geteuid(), Gid: os.Getegid(), PAXRecords: map[string]string{
		"SCHILY.xattr.user.overlay.redirect":   "/etc",
		"SCHILY.xattr.user.other":              "1",
		"SCHILY.xattr.trusted.overlay.opaque":  "y",
		"SCHILY.xattr.security.capability":     "1",
		"SCHILY.xattr.system.posix_acl_access": "1",
	}}}
	if os.Geteuid() == 0 {
		owned.Uid, owned.Gid = 1234, 5678
	}
	dir, err := unpackBeside(t, tarOf(t, owned), small)
	require.NoError(t, err)
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(dir, "owned"), &stat))
	wantMode := uint32(0o4711)
	if os.Geteuid() != 0 {
		wantMode |= 0o600
	}
	if int(stat.Uid) != owned.Uid || int(stat.Gid) != owned.Gid || stat.Mode&0o7777 != wantMode {
		t.Errorf("the file belongs to %d:%d with mode %o, want %d:%d and %o", stat.Uid, stat.Gid, stat.Mode&0o7777, owned.Uid, owned.Gid, wantMode)
	}
	if n, err := unix.Llistxattr(filepath.Join(dir, "owned"), nil); err != nil || n != 0 {
		t.Errorf("the file has %d bytes of attribute names, %v; want none", n, err)
	}
}

func TestALayerOrArchiveIsBounded(t *testing.T) {
	var many, long []tarEntry
	for i := range 11 {
		many = append(many, directory(fmt.Sprint(i), 0o755))
		long = append(long, symlink(fmt.Sprintf(".wh.%095d", i), strings.Repeat("b", 100)))
	}
	for _, c := range []struct {
		name    string
		content []byte
		limit   limits
		says    string
	}{
		{"too many entries", tarOf(t, many...), limits{bytes: 1 << 20, entries: 10, names: 1 << 20}, "more than 10 entries"},
		{"a large file", tarOf(t, file("a", strings.Repeat("a", 3000))), limits{bytes: 2999, entries: 10, names: 1 << 20}, "more than 2999 bytes"},
		{"large files together", tarOf(t, file("a", strings.Repeat("a", 2000)), file("b", strings.Repeat("a", 1000))), limits{bytes: 2999, entries: 10, names: 1 << 20}, "more than 2999 bytes"},
		{"a file of nothing but holes", sparse(t, 1<<62), limits{bytes: 1 << 20, entries: 10, names: 1 << 20}, "more than 1048576 bytes"},
		{"headers without end", tarOf(t, many...), limits{bytes: 3000, entries: 100, names: 1 << 20}, "more than 3000 bytes"},
		{"long names and links together", tarOf(t, long...), limits{bytes: 1 << 20, entries: 100, names: 2000}, "names have more than 2000 bytes"},
		{"a name that no path can be", tarOf(t, file(strings.Repeat("a/", 3000)+"a", "")), limits{bytes: 1 << 20, entries: 100, names: 1 << 20}, "name of more than 4096 bytes"},
		{"a link that no path can be", tarOf(t, symlink("a", strings.Repeat("a/", 3000))), limits{bytes: 1 << 20, entries: 100, names: 1 << 20}, "name of more than 4096 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := unpackBeside(t, c.content, c.limit)
			checkError(t, err, nil, c.says, "limit")

			in, err := open(t, t.TempDir()).newWorkspace()
			require.NoError(t, err)
			_, err = extract(in, bytes.NewReader(c.content), c.limit)
			checkError(t, err, nil, c.says, "limit")
			assert.NoError(t, in.remove())
		})
	}
}

// sparse is a tar of a file that is a hole of this size: a few bytes, which the
// reader of Go takes for all of it.
func sparse(t *testing.T, size int64) []byte {
	t.Helper()
	record := func(key, value string) string {
		length := len(key) + len(value) + 3
		for n := length; ; {
			line := fmt.Sprintf("%d %s=%s\n", n, key, value)
			if len(line) == n {
				return line
			}
			n = len(line)
		}
	}
	records := record("GNU.sparse.major", "0") + record("GNU.sparse.minor", "1") + record("GNU.sparse.name", "a") +
		record("GNU.sparse.size", fmt.Sprint(size)) + record("GNU.sparse.numblocks", "1") + record("GNU.sparse.map", fmt.Sprintf("%d,0", size))
	header := func(kind byte, size int) []byte {
		block := make([]byte, 512)
		copy(block, "a")
		copy(block[100:], "0000644\x000000000\x000000000\x00")
		copy(block[124:], fmt.Sprintf("%011o\x00%011o\x00", size, 0))
		block[156] = kind
		copy(block[257:], "ustar\x0000")
		copy(block[148:], "        ")
		sum := 0
		for _, b := range block {
			sum += int(b)
		}
		copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
		return block
	}
	content := header('x', len(records))
	content = append(content, records...)
	content = append(content, make([]byte, 512-len(records)%512)...)
	content = append(content, header('0', 0)...)
	content = append(content, make([]byte, 1024)...)
	read, err := tar.NewReader(bytes.NewReader(content)).Next()
	require.True(t, err == nil && read.Size == size, "the tar is not what the test wants: %+v, %v", read, err)
	return content
}

func TestDamagedTarsAreRefused(t *testing.T) {
	whole := tarOf(t, file("a", strings.Repeat("a", 1000)), file("b", "1"))
	for _, c := range []struct {
		name    string
		content []byte
	}{
		{"noise", bytes.Repeat([]byte("noise"), 500)},
		{"an end within a header", whole[:300]},
		{"an end within a file", whole[:1000]},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := unpackBeside(t, c.content, small); err == nil {
				t.Error("it was unpacked")
			}
		})
	}
}

func TestUnpackingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan error)
	go func() { done <- unpack(ctx, t.TempDir(), read, true, small) }()
	content := tarOf(t, file("a", "1"), file("b", "2"))
	if _, err := write.Write(content[:1024]); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := write.Write(content[1024:1536]); err != nil {
		t.Fatal(err)
	}
	assert.ErrorIs(t, <-done, context.Canceled, "unpacking ended with")
}
