package protected

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

func put(t *testing.T, s *Store, document any) Ref {
	ref := must.Get(s.Put(document))(t)
	return ref
}

func TestADocumentIsReadAsItWasWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".deployster", DirName)
	s := New(dir)
	document := map[string]any{"password": "s3cr3t", "ports": []any{1.5, nil}}
	ref, same := put(t, s, document), put(t, s, document)
	for _, r := range []Ref{ref, same} {
		var got map[string]any
		err := New(dir).Get(r, &got)
		assert.True(t, err == nil && reflect.DeepEqual(got, document), "got %v, %v", got, err)
	}
	assert.True(t, ref.Name != same.Name && ref.Hash != same.Hash, "equal documents can be told by their references: %v, %v", ref, same)
}

func TestOnlyTheOwnerCanReadIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), DirName)
	require.NoError(t, os.Mkdir(dir, 0o755))
	s := New(dir)
	ref := put(t, s, "s3cr3t")
	for path, want := range map[string]fs.FileMode{dir: 0o700, s.place.(directory).path(ref.Name): 0o600} {
		info, err := os.Stat(path)
		assert.True(t, err == nil && info.Mode().Perm() == want, "%s: %v, %v", path, info.Mode(), err)
	}
}

func TestWhatIsNotTheDocument(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "else")
	require.NoError(t, os.WriteFile(secret, []byte(`{"salt":"","document":"x"}`), 0o600))
	for name, tc := range map[string]struct {
		spoil func(path string) error
		want  string
	}{
		"gone":        {os.Remove, "is not there; restore it from a backup"},
		"altered":     {func(path string) error { return os.WriteFile(path, []byte(`{"salt":"","document":"x"}`), 0o600) }, "is not what was written"},
		"cut off":     {func(path string) error { return os.Truncate(path, 10) }, "is not what was written"},
		"too large":   {func(path string) error { return os.Truncate(path, MaxSize+1) }, "at most 16777216 are read"},
		"a link":      {func(path string) error { return errors.Join(os.Remove(path), os.Symlink(secret, path)) }, "reading the protected document"},
		"a directory": {func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, "it is a directory, not a file"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(t.TempDir())
			ref := put(t, s, "s3cr3t")
			require.NoError(t, tc.spoil(s.place.(directory).path(ref.Name)))
			var got string
			err := s.Get(ref, &got)
			assert.True(t, err != nil && strings.Contains(err.Error(), tc.want) && got == "", "got %q, %v", got, err)
			assert.Equal(t, (name == "gone"), errors.Is(err, fs.ErrNotExist), "it is not said whether it is gone: %v", err)
		})
	}
}

func TestReferencesLeadNowhereElse(t *testing.T) {
	s := New(t.TempDir())
	for _, name := range []string{"", ".", "..", "../x", "/etc/passwd", strings.Repeat("z", nameLength), strings.Repeat("a", nameLength-2), "../" + strings.Repeat("a", nameLength)} {
		assert.ErrorContains(t, s.Get(Ref{Name: name}, new(any)), "no document can have this name", "%q", name)
		assert.NoError(t, s.Remove(Ref{Name: name}), "%q", name)
	}
}

func TestADocumentThatCannotBeKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), DirName)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		store    *Store
		document any
	}{
		"what is no JSON":         {New(dir), func() {}},
		"what is too large":       {New(dir), strings.Repeat("x", MaxSize)},
		"without randomness":      {&Store{directory(dir), iotest.ErrReader(errors.New("none left"))}, "x"},
		"a file is the directory": {New(file), "x"},
	} {
		ref, err := tc.store.Put(tc.document)
		assert.True(t, err != nil && ref == (Ref{}), "%s: %v, %v", name, ref, err)
	}
	left, err := os.ReadDir(dir)
	assert.True(t, err == nil && len(left) == 0, "left behind: %v, %v", left, err)
}

func TestWhatNothingRefersToIsPruned(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), DirName))
	pruned, err := s.Prune(func(string) bool { return false }, time.Now(), false)
	require.True(t, err == nil && pruned == nil, "of a store without a directory: %v, %v", pruned, err)
	kept, orphan, young := put(t, s, 1), put(t, s, 2), put(t, s, 3)
	begin := time.Now()
	for _, r := range []Ref{kept, orphan} {
		require.NoError(t, os.Chtimes(s.place.(directory).path(r.Name), begin, begin.Add(-time.Hour)))
	}
	other := filepath.Join(string(s.place.(directory)), "notes.txt")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	referred := func(name string) bool { return name == kept.Name }
	for _, dryRun := range []bool{true, false} {
		pruned, err := s.Prune(referred, begin.Add(-time.Minute), dryRun)
		assert.True(t, err == nil && len(pruned) == 1 && pruned[0].Name == orphan.Name, "dry run %v: %v, %v", dryRun, pruned, err)
		err = s.Get(orphan, new(int))
		assert.True(t, (err == nil) == dryRun, "dry run %v: %v", dryRun, err)
	}
	for _, r := range []Ref{kept, young} {
		assert.NoError(t, s.Get(r, new(int)))
	}
	assert.NoError(t, errors.Join(s.Remove(kept), s.Remove(kept)))
}
