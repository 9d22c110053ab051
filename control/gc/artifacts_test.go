package gc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	c.Artifacts, c.ArtifactsLeft = nil, "another log may need them"
	if r := removed(t, c); r.Left != c.ArtifactsLeft || r.Count != 0 {
		t.Errorf("it removed %+v", r)
	}
}

func TestArtifactsOfOldBuildGroupsAreRemoved(t *testing.T) {
	p := newPlace(t)
	store := artifacts.In(filepath.Join(p.dir, "artifacts"))
	kept := objects.In(filepath.Join(p.dir, "objects"), nil)
	digests, copies := map[string]string{}, map[string]string{}
	artifact := func(name string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := store.Collect(t.Context(), dir, artifacts.Limits{})
		if err == nil {
			copies[name], err = store.Directory(t.Context(), a.Digest)
		}
		then := p.now.Add(-100 * day)
		err = errors.Join(err, os.Chtimes(filepath.Join(p.dir, "artifacts", "blobs", "sha256", strings.TrimPrefix(a.Digest, "sha256:")), then, then))
		if err != nil {
			t.Fatal(err)
		}
		digests[name] = a.Digest
		return a.Digest
	}
	record := func(target deploylog.Target, name, data string) {
		if _, err := p.log.Append(t.Context(), deploylog.Event{Deployment: "x", Target: target, Name: name, Attempt: 1, Data: json.RawMessage(data)}); err != nil {
			t.Fatal(err)
		}
	}
	keep := func(text string) string {
		hash, err := kept.Keep([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	built := func(id, end string) {
		recipe := keep(fmt.Sprintf(`{"sources":%q}`, artifact("sources of "+id)))
		record(deploylog.Target("group/"+id), "group-triggered", fmt.Sprintf(`{"name":"base","carries":{"/recipes/0":%q}}`, recipe))
		record(deploylog.Target("job/"+id+"/1"), "job-finished-successfully", fmt.Sprintf(`{"artifact":%q}`, artifact("built by "+id)))
		if end != "" {
			record(deploylog.Target("group/"+id), end, `{}`)
		}
	}
	for id, end := range []string{1: "group-finished-successfully", 2: "group-finished-successfully", 3: "group-failed", 4: ""} {
		if id > 0 {
			built(fmt.Sprintf("base-%d", id), end)
		}
	}
	for id := range gc.KeptRuns {
		built(fmt.Sprintf("base-%d", 5+id), "group-failed")
	}
	carried := keep(fmt.Sprintf(`{"submit":{"carries":{"/recipes/0":%q}}}`, keep(fmt.Sprintf(`{"sources":%q}`, artifact("carried")))))
	record("pipeline/shop", "revision-released", fmt.Sprintf(`{"carries":{"/build/packages":%q}}`, carried))
	record("pipeline/shop/packages", "stage-group-built", fmt.Sprintf(`{"artifacts":{"make":"registry.example/base@%s"}}`, artifact("registered")))

	c := gc.Collector{Log: p.log, Dir: p.dir, Now: p.now, Before: p.now.Add(-30 * day), Objects: &kept, Artifacts: store, DryRun: true}
	would := removed(t, c)
	c.DryRun = false
	if r := removed(t, c); r.Count != 4 || r.Bytes != would.Bytes || would.Count != 4 {
		t.Errorf("it removed %+v, and would have %+v", r, would)
	}
	for name, digest := range digests {
		gone := strings.HasSuffix(name, "base-1") || strings.HasSuffix(name, "base-3")
		if store.Has(digest) == gone {
			t.Errorf("%s: is gone: %v", name, !gone)
		}
		if _, err := os.Stat(copies[name]); errors.Is(err, os.ErrNotExist) == strings.HasSuffix(name, "base-4") {
			t.Errorf("%s, unpacked: %v", name, err)
		}
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
