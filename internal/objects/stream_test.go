package objects_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/objects"
)

// What is opened is what is loaded, and what was altered is neither.
func TestAnObjectIsReadWithoutHoldingIt(t *testing.T) {
	dir := t.TempDir()
	s := objects.In(dir, nil)
	hash := keep(t, s, "a text")
	f, size, err := s.Open(hash)
	if err != nil || size != 6 {
		t.Fatal(size, err)
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil || string(text) != "a text" {
		t.Errorf("%q, %v", text, err)
	}
	if err := s.Check(hash); err != nil {
		t.Error(err)
	}
	if err := s.Check(strings.Repeat("0", 64)); !errors.Is(err, objects.ErrMissing) {
		t.Errorf("what is missing: %v", err)
	}
	if err := s.Check("../" + hash); err == nil || errors.Is(err, objects.ErrMissing) {
		t.Errorf("what is no hash: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sha256", hash), []byte("b text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(hash); !errors.Is(err, objects.ErrAltered) {
		t.Errorf("what was altered: %v", err)
	}
}
