package objects_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/deployster-go/deployster/internal/objects"
)

func TestAStoreHasOneSalt(t *testing.T) {
	dir := t.TempDir()
	store := objects.In(dir, nil)
	if _, err := store.Salt(); !errors.Is(err, objects.ErrMissing) {
		t.Errorf("before it is made: %v", err)
	}
	salts := make([][]byte, 20)
	var making sync.WaitGroup
	for i := range salts {
		making.Go(func() {
			var err error
			if salts[i], err = objects.In(dir, nil).MakeSalt(); err != nil {
				t.Error(err)
			}
		})
	}
	making.Wait()
	for _, salt := range salts {
		if len(salt) != 32 || !bytes.Equal(salt, salts[0]) {
			t.Errorf("the salt is %x and %x", salt, salts[0])
		}
	}
	path := filepath.Join(dir, "salt")
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("it has the mode %v, %v", info.Mode(), err)
	}
	other, err := objects.In(t.TempDir(), nil).MakeSalt()
	if err != nil || bytes.Equal(other, salts[0]) {
		t.Errorf("of another store it is %x, %v", other, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".deployster-new-*")); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	for _, text := range []string{"", "half", string(bytes.Repeat([]byte("x"), 64))} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := store.MakeSalt(); !errors.Is(err, objects.ErrAltered) {
			t.Errorf("of the salt %q: %v", text, err)
		}
	}
}
