package work

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/objects"
)

func TestATextIsKeptAsItWas(t *testing.T) {
	texts := NewTexts(filepath.Join(t.TempDir(), "objects"), t.TempDir(), nil)
	const text = "resources: {} # a secret\n"
	digest, err := texts.Keep([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := texts.Load(digest); err != nil || string(got) != text {
		t.Errorf("got %q, %v", got, err)
	}
	_, err = texts.Load(strings.Repeat("0", 64))
	for _, says := range []string{strings.Repeat("0", 64), "missing", "put it back", "new revision"} {
		if !errors.Is(err, objects.ErrMissing) || !strings.Contains(err.Error(), says) {
			t.Errorf("of one that is lost is said %v, without %q", err, says)
		}
	}
	if _, err := texts.Load("../../m"); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("of what is no digest is said %v", err)
	}
}

// Other errors have other remedies: what may not be read is there.
func TestATextThatCannotBeReadIsNotCalledLost(t *testing.T) {
	dir := t.TempDir()
	texts := NewTexts(filepath.Join(dir, "objects"), dir, nil)
	if err := os.WriteFile(filepath.Join(dir, "objects"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := texts.Load(strings.Repeat("0", 64)); err == nil || strings.Contains(err.Error(), "put it back") {
		t.Errorf("where no directory is, is said %v", err)
	}
	for _, says := range []string{"the owner of the log", "group", "0770", "0660"} {
		if err := fmt.Errorf("object: %w", fs.ErrPermission); !strings.Contains(objects.Remedied(err).Error(), says) {
			t.Errorf("of what may not be read is said %v, without %q", objects.Remedied(err), says)
		}
	}
}

// Former versions kept the manifests of environments below the workspace.
func TestATextThatAFormerVersionKeptIsRead(t *testing.T) {
	workspace := t.TempDir()
	texts := NewTexts(filepath.Join(t.TempDir(), "objects"), workspace, nil)
	const text = "resources: {}\n"
	digest := objects.Hash([]byte(text))
	path := filepath.Join(workspace, ".deployster", "manifests", digest+".yaml")
	write := func(text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	if got, err := texts.Load(digest); err != nil || string(got) != text {
		t.Errorf("got %q, %v", got, err)
	}
	write(text + "# altered")
	if got, err := texts.Load(digest); !errors.Is(err, objects.ErrAltered) || got != nil {
		t.Errorf("altered it is %q, %v", got, err)
	}
	if _, err := texts.Keep([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if got, err := texts.Load(digest); err != nil || string(got) != text {
		t.Errorf("kept again it is %q, %v", got, err)
	}
}
