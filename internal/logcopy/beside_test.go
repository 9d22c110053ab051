package logcopy_test

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/logcopy"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/protected"
)

func beside(t *testing.T) logcopy.Beside {
	dir := t.TempDir()
	return logcopy.Beside{Objects: objects.In(filepath.Join(dir, "objects"), nil), Documents: protected.New(filepath.Join(dir, "protected"))}
}

// What events name goes along, and nothing else; once more is no harm.
func TestWhatEventsNameIsCopiedAsWell(t *testing.T) {
	from, to := beside(t), beside(t)
	named, err := from.Objects.Keep([]byte("named"))
	other, failed := from.Objects.Keep([]byte("other"))
	ref, refused := from.Documents.Put("a secret")
	salt, none := from.Objects.MakeSalt()
	if err := errors.Join(err, failed, refused, none); err != nil {
		t.Fatal(err)
	}
	log := logtest.NewMemory().Open()
	e := event(0)
	e.Data = []byte(`{"text": "` + named + `", "gone": "` + strings.Repeat("0", 64) + `"}`)
	if _, err := log.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		n, err := logcopy.CopyBeside(t.Context(), log, from, to, map[string]bool{ref.Name: true, strings.Repeat("f", 32): true, "../x": true})
		if err != nil || n.Objects != 1 || n.Documents != 1 || n.Missing != 2 || n.Unread != nil {
			t.Fatalf("%+v, %v", n, err)
		}
	}
	if text, err := to.Objects.Load(named); err != nil || string(text) != "named" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := to.Objects.Load(other); !errors.Is(err, objects.ErrMissing) {
		t.Errorf("what nothing names: %v", err)
	}
	if there, err := to.Objects.Salt(); err != nil || !bytes.Equal(there, salt) {
		t.Errorf("the salt is %x and not %x, %v", there, salt, err)
	}
	var secret string
	if err := to.Documents.Get(ref, &secret); err != nil || secret != "a secret" {
		t.Errorf("%q, %v", secret, err)
	}
	elsewhere := beside(t)
	if _, err := elsewhere.Objects.MakeSalt(); err != nil {
		t.Fatal(err)
	}
	if _, err := logcopy.CopyBeside(t.Context(), log, from, elsewhere, nil); err == nil || !strings.Contains(err.Error(), "another key of hashes") {
		t.Errorf("to where somebody has made revisions: %v", err)
	}
}

// closed is a place of which somebody may read nothing, or write nothing.
type closed struct{ protected.Remote }

func (closed) Load(string) ([]byte, error) { return nil, fs.ErrPermission }
func (closed) Keep(string, []byte) error   { return fs.ErrPermission }
func (closed) Salt() ([]byte, error)       { return nil, fs.ErrPermission }
func (closed) String() string              { return "a closed place" }

// What may not be read is left out; what may not be written is a failure.
func TestWhatMayNotBeReadIsLeftOut(t *testing.T) {
	open := beside(t)
	shut := logcopy.Beside{Objects: objects.Via(closed{}), Documents: protected.Via(closed{})}
	ref, err := open.Documents.Put("a secret")
	text, failed := open.Objects.Keep([]byte("a text"))
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	log := logtest.NewMemory().Open()
	e := event(0)
	e.Data = []byte(`{"text": "` + text + `"}`)
	if _, err := log.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{ref.Name: true}
	n, err := logcopy.CopyBeside(t.Context(), log, shut, beside(t), names)
	if err != nil || !slices.Equal(n.Unread, []string{"the key of hashes", "texts of revisions", "documents with secrets"}) || n.Missing+n.Documents+n.Objects != 0 {
		t.Errorf("%+v, %v", n, err)
	}
	for _, to := range []logcopy.Beside{{Objects: open.Objects, Documents: shut.Documents}, {Objects: shut.Objects, Documents: open.Documents}} {
		if n, err := logcopy.CopyBeside(t.Context(), log, open, to, names); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%+v, %v", n, err)
		}
	}
}

// A copy that was used since is told apart from another log.
func TestACopyThatHasGoneOnIsNoFailureOfTheOriginal(t *testing.T) {
	from, to := filled(t, 3), logtest.NewMemory().Open()
	_, err := logcopy.Copy(t.Context(), from, to, nil)
	for n := 3; n < 5 && err == nil; n++ {
		_, err = to.Append(t.Context(), event(n))
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = logcopy.Copy(t.Context(), from, to, nil)
	if err == nil || !strings.Contains(err.Error(), "all of its 3 events, and 2 more") || !strings.Contains(err.Error(), "the other way around") {
		t.Errorf("%v", err)
	}
}
