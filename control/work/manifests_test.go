package work

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAManifestIsKeptAsItWas(t *testing.T) {
	m := ManifestsBelow(t.TempDir())
	text := "resources: {} # a secret\n"
	digest, err := m.Keep([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Load(digest); err != nil || string(got) != text {
		t.Errorf("got %q, %v", got, err)
	}
	for path, mode := range map[string]os.FileMode{m.dir: 0o700 | os.ModeDir, m.path(digest): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s has mode %v, want %v (%v)", path, info.Mode(), mode, err)
		}
	}

	fails := func(what, digest string, says ...string) {
		t.Helper()
		got, err := m.Load(digest)
		if err == nil {
			t.Fatalf("%s: it is %q", what, got)
		}
		for _, text := range says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %q does not say %q", what, err, text)
			}
		}
	}
	if err := os.WriteFile(m.path(digest), []byte(text+"#"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails("altered", digest, m.path(digest), "changed", "env update")
	if again, err := m.Keep([]byte(text)); err != nil || again != digest {
		t.Fatal(again, err)
	}
	if got, err := m.Load(digest); err != nil || string(got) != text {
		t.Errorf("kept again: got %q, %v", got, err)
	}
	if err := os.Remove(m.path(digest)); err != nil {
		t.Fatal(err)
	}
	fails("lost", digest, m.path(digest), "gone", "env update")
	for _, bad := range []string{"", "../../m", strings.ToUpper(digest), digest[:10], filepath.Join("..", digest)} {
		fails("no digest", bad, "SHA-256")
	}
	if left, err := os.ReadDir(m.dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
