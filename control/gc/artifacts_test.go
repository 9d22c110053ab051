package gc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/gc"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/objects"
)

func TestArtifactsThatNobodyNeedsAreRemoved(t *testing.T) {
	p := newPlace(t)
	store := artifacts.In(filepath.Join(p.dir, "artifacts"))
	kept := objects.In(filepath.Join(p.dir, "objects"), nil)
	digests := map[string]string{}
	for _, name := range []string{"named", "source", "old"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := store.Collect(t.Context(), dir, artifacts.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		digests[name] = a.Digest
		then := p.now.Add(-100 * day)
		if err := os.Chtimes(filepath.Join(p.dir, "artifacts", "blobs", "sha256", strings.TrimPrefix(a.Digest, "sha256:")), then, then); err != nil {
			t.Fatal(err)
		}
	}
	hash, err := kept.Keep(fmt.Appendf(nil, `{"sources":%q}`, digests["source"]))
	if err != nil {
		t.Fatal(err)
	}
	data := fmt.Sprintf(`{"artifact":%q,"carries":{"/recipes/0":%q}}`, digests["named"], hash)
	if _, err := p.log.Append(t.Context(), deploylog.Event{Deployment: "base-1", Target: "job/base-1/1", Name: "job-finished-successfully", Attempt: 1, Data: json.RawMessage(data)}); err != nil {
		t.Fatal(err)
	}
	c := gc.Collector{Log: p.log, Dir: p.dir, Now: p.now, Before: p.now.Add(-30 * day), Objects: &kept, Artifacts: store, DryRun: true}
	for _, c.DryRun = range []bool{true, false} {
		r := removed(t, c)
		if r.Count != 1 || r.Bytes < 1024 || r.Oldest == nil || p.now.Sub(*r.Oldest).Round(day) != 100*day {
			t.Errorf("dry run %v: it removed %+v", c.DryRun, r)
		}
	}
	for name, digest := range digests {
		if err := store.Verify(t.Context(), digest); name == "old" != errors.Is(err, artifacts.ErrMissing) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Who knows more than the log decides.
	if _, err := c.Artifacts.Directory(t.Context(), digests["named"]); err != nil {
		t.Fatal(err)
	}
	c.Now = time.Now().Add(60 * day)
	c.Before = c.Now.Add(-30 * day)
	c.NeededArtifacts = func(context.Context) (func(string) bool, error) {
		return func(digest string) bool { return digest == digests["source"] }, nil
	}
	if r := removed(t, c); r.Count != 1 || store.Has(digests["named"]) || !store.Has(digests["source"]) {
		t.Errorf("it removed %+v", r)
	}
	c.Artifacts, c.ArtifactsLeft = nil, "another log may need them"
	if r := removed(t, c); r.Left != c.ArtifactsLeft || r.Count != 0 {
		t.Errorf("it removed %+v", r)
	}
}

func removed(t *testing.T, c gc.Collector) gc.Removed {
	t.Helper()
	all, err := c.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Kind == gc.Artifacts {
			return r
		}
	}
	t.Fatal("it says nothing of artifacts")
	return gc.Removed{}
}
