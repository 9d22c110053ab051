package artifacts_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// A manifest that is accepted is the only one of its layer.
func FuzzManifest(f *testing.F) {
	text, err := artifacts.EncodeManifest(v1.Descriptor{Size: 1024, Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("5f", 32)}})
	require.NoError(f, err)
	f.Add(text)
	f.Add(bytes.Replace(text, []byte("sha256:5f"), []byte("sha512:5f"), 1))
	f.Add(bytes.Replace(text, []byte("1024"), []byte("-1"), 1))
	f.Add(append(text, ' '))
	f.Add([]byte(`{"schemaVersion":2,"layers":[]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		layer, err := artifacts.DecodeManifest(text)
		if err != nil {
			assert.True(t, layer.Size == 0 && layer.Digest.Hex == "", "a layer beside %v", err)
			return
		}
		again, err := artifacts.EncodeManifest(layer)
		assert.True(t, err == nil && bytes.Equal(again, text), "%q is accepted, and made again %q, %v", text, again, err)
	})
}

// tarOf makes a tar of headers, each file with its name as content.
func tarOf(tb testing.TB, headers ...tar.Header) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		require.NoError(tb, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			require.NoError(tb, errOf(w.Write([]byte(h.Name))))
		}
	}
	require.NoError(tb, w.Close())
	return out.Bytes()
}

var (
	then   = time.Date(1980, 1, 2, 0, 0, 0, 0, time.UTC)
	aFile  = tar.Header{Typeflag: tar.TypeReg, Name: "a", Mode: 0o644, ModTime: then, Format: tar.FormatPAX}
	aLink  = tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "b", Mode: 0o777, ModTime: then, Format: tar.FormatPAX}
	bDir   = tar.Header{Typeflag: tar.TypeDir, Name: "b/", Mode: 0o755, ModTime: then, Format: tar.FormatPAX}
	inB    = tar.Header{Typeflag: tar.TypeReg, Name: "b/c", Mode: 0o755, ModTime: then, Format: tar.FormatPAX}
	longer = tar.Header{Typeflag: tar.TypeReg, Name: "b/" + strings.Repeat("d", 150), Mode: 0o644, ModTime: then, Format: tar.FormatPAX}
)

// with is a header that differs in something.
func with(h tar.Header, change func(*tar.Header)) tar.Header {
	change(&h)
	return h
}

func TestALayerOfAnotherFormIsRefused(t *testing.T) {
	a, err := artifacts.Unpack(t.Context(), t.TempDir(), tarOf(t, aLink, bDir, inB, longer))
	require.True(t, err == nil && a.Files == 4, "of the right form: %+v, %v", a, err)
	tests := map[string][]byte{
		"another order":        tarOf(t, bDir, aFile),
		"twice":                tarOf(t, aFile, aFile),
		"a link and below it":  tarOf(t, aLink, with(inB, func(h *tar.Header) { h.Name = "a/c" })),
		"no directory":         tarOf(t, inB),
		"above":                tarOf(t, with(aFile, func(h *tar.Header) { h.Name = "../a" })),
		"absolute":             tarOf(t, with(aFile, func(h *tar.Header) { h.Name = "/a" })),
		"a dot":                tarOf(t, with(bDir, func(h *tar.Header) { h.Name = "./" })),
		"a link out":           tarOf(t, with(aLink, func(h *tar.Header) { h.Linkname = "../a" })),
		"an absolute link":     tarOf(t, with(aLink, func(h *tar.Header) { h.Linkname = "/etc" })),
		"a hard link":          tarOf(t, aFile, with(aFile, func(h *tar.Header) { h.Typeflag, h.Name, h.Linkname = tar.TypeLink, "b", "a" })),
		"a device":             tarOf(t, with(aFile, func(h *tar.Header) { h.Typeflag = tar.TypeChar })),
		"a pipe":               tarOf(t, with(aFile, func(h *tar.Header) { h.Typeflag = tar.TypeFifo })),
		"an owner":             tarOf(t, with(aFile, func(h *tar.Header) { h.Uid = 1000 })),
		"a name of an owner":   tarOf(t, with(aFile, func(h *tar.Header) { h.Uname = "root" })),
		"a time":               tarOf(t, with(aFile, func(h *tar.Header) { h.ModTime = time.Unix(1, 0) })),
		"a mode":               tarOf(t, with(aFile, func(h *tar.Header) { h.Mode = 0o4755 })),
		"an attribute":         tarOf(t, with(aFile, func(h *tar.Header) { h.PAXRecords = map[string]string{"SCHILY.xattr.user.x": "y"} })),
		"another format":       tarOf(t, with(longer, func(h *tar.Header) { h.Name, h.Format = h.Name[2:], tar.FormatGNU })),
		"control characters":   tarOf(t, with(aFile, func(h *tar.Header) { h.Name = "a\x1b" })),
		"nothing":              {},
		"half an end":          make([]byte, 512),
		"more after the end":   append(tarOf(t, aFile), make([]byte, 512)...),
		"much after the end":   append(tarOf(t, aFile), tarOf(t, bDir)...),
		"no tar":               bytes.Repeat([]byte("x"), 1024),
		"an entry cut off":     tarOf(t, aFile)[:700],
		"more than its header": bytes.Replace(tarOf(t, aFile), []byte("00000000001\x00"), []byte("77777777777\x00"), 1),
	}
	for name, layer := range tests {
		t.Run(name, func(t *testing.T) {
			if a, err := artifacts.Unpack(t.Context(), t.TempDir(), layer); err == nil {
				t.Errorf("it is %+v", a)
			} else if len(err.Error()) > 500 {
				t.Errorf("it says %d bytes", len(err.Error()))
			}
		})
	}
}

// What a layer makes is in the directory, and makes that layer again; otherwise it is refused.
func FuzzUnpack(f *testing.F) {
	f.Add(tarOf(f, aLink, bDir, inB, longer))
	f.Add(tarOf(f, aFile, aFile))
	f.Add(tarOf(f, with(aLink, func(h *tar.Header) { h.Linkname = "b/../../x" }), bDir))
	f.Add(tarOf(f, with(aFile, func(h *tar.Header) { h.Name = "../a" })))
	f.Fuzz(func(t *testing.T, layer []byte) {
		outer := t.TempDir()
		dir := filepath.Join(outer, "in")
		must(t, os.Mkdir(dir, 0o700))
		a, err := artifacts.Unpack(t.Context(), dir, layer)
		if there, err := os.ReadDir(outer); err != nil || len(there) != 1 {
			t.Errorf("beside the directory are %v, %v", there, err)
		}
		if err == nil {
			again, made, err := artifacts.Pack(t.Context(), dir)
			assert.True(t, err == nil && again == a && bytes.Equal(made, layer), "it makes %v, %v; not %v", again, err, a)
		}
	})
}

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

// In a child of a test, what is in this variable is collected and unpacked until it is killed.
const childVariable = "ARTIFACTS_TEST_CHILD"

func TestMain(m *testing.M) {
	if dirs := os.Getenv(childVariable); dirs != "" {
		if err := work(dirs); err != nil {
			fmt.Fprintln(os.Stdout, "failed:", err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// work stores and unpacks directories with ever other content, and says each digest.
func work(dirs string) error {
	store, dir, _ := strings.Cut(dirs, "|")
	s := artifacts.In(store)
	for i := range 100_000 {
		if err := os.WriteFile(filepath.Join(dir, "README"), fmt.Append(nil, i), 0o600); err != nil {
			return err
		}
		a, err := s.Collect(context.Background(), dir, artifacts.Limits{})
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, a.Digest)
		if _, err := s.Directory(context.Background(), a.Digest); err != nil {
			return err
		}
	}
	return nil
}

func TestWhatAKilledProcessNamedIsThere(t *testing.T) {
	_, store := newStore(t)
	for round := range ringtest.Cases(5, 12) {
		dir := write(t, toolchain)
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childVariable+"="+store+"|"+dir)
		out, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		lines := bufio.NewScanner(out)
		var named []string
		for n := 1 + rand.IntN(4); len(named) < n && lines.Scan(); {
			named = append(named, lines.Text())
		}
		for range rand.IntN(2000) { // at any moment of what comes next
			_ = os.Getpid()
		}
		must(t, child.Process.Kill())
		rest, err := io.ReadAll(out)
		must(t, err)
		_ = child.Wait() // it was killed
		if lines := strings.Fields(string(rest)); len(lines) > 0 {
			named = append(named, lines[:len(lines)-1]...)
		}
		s := artifacts.In(store)
		for _, digest := range named {
			require.True(t, strings.HasPrefix(digest, "sha256:"), "round %d: it says %s", round, digest)
			must(t, s.Verify(t.Context(), digest))
			assert.NoError(t, errOf(s.Directory(t.Context(), digest)), "round %d", round)
		}
	}
	s := artifacts.In(store)
	assert.NoError(t, errOf(s.Prune(t.Context(), time.Now().Add(-time.Hour), func(string) bool { return true }, false)))
	wantNothingHalf(t, store)
	blobs, err := os.ReadDir(filepath.Join(store, "unpacked"))
	must(t, err)
	for _, blob := range blobs {
		assert.NoError(t, s.Verify(t.Context(), "sha256:"+blob.Name()))
	}
}
