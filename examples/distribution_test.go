package examples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// The compiler, the make and the C library of the distribution build each other, and which
// of them comes first follows from their order in the file. What they come to does not.
func TestADistributionConvergesWhateverTheOrderOfItsPackages(t *testing.T) {
	w := shared
	dir := filepath.Join(t.TempDir(), "distribution")
	require.NoError(t, os.CopyFS(dir, os.DirFS("distribution")))
	file := filepath.Join(dir, "packages.yaml")
	text := must.Get(os.ReadFile(file))(t)
	group := "distribution-1"
	built := w.distribution(t, dir, group)
	require.Len(t, built, 12)
	if ringtest.All() { // in "make test" the properties of package build plan in any order
		require.NoError(t, os.WriteFile(file, reversed(t, text), 0o600))
		group = "distribution-2"
		assert.Equal(t, built, w.distribution(t, dir, group), "in the reverse order")
	}
	out := t.TempDir()
	w.deployster(t, dir, "build", "logs", group, "curl")
	require.NoError(t, exec.Command("tar", "-xf", layerOf(t, dir, built["curl"]), "-C", out).Run(), "unpacking the artifact of curl")
	contains(t, filepath.Join(out, "bin/curl"), "# compiled by cc 9.1, linked with libc 2.29\n")
	contains(t, filepath.Join(out, "made"), "made by make 4.3\n")

	// A stage of a pipeline takes what is built already, and later ones get it.
	for _, args := range []string{"apply -f pipeline.yaml", "release world 1", "run --until-idle", "release world 2", "run --until-idle"} {
		w.deployster(t, dir, append([]string{"pipeline"}, strings.Fields(args)...)...)
	}
	contains(t, filepath.Join(dir, "installed"), "2: curl "+built["curl"]+"\n")
	last := map[string]string{"distribution-1": "distribution-3", "distribution-2": "distribution-4"}[group]
	jobs := w.deployster(t, dir, "build", "jobs", last)
	assert.Equal(t, 15, strings.Count(jobs, "reused"), "jobs of the second revision are to be reused:\n%s", jobs)
}

// distribution builds all packages anew, and returns the artifacts of what was built last.
func (w *world) distribution(t *testing.T, dir, group string) map[string]string {
	w.deployster(t, dir, "build", "submit", "-f", "packages.yaml", "--no-reuse")
	w.deployster(t, dir, "build", "run", "--until-idle")
	var answer struct {
		Jobs []struct {
			Package  string
			State    string
			Finished struct{ Artifact, Reused string }
		}
	}
	text := w.deployster(t, dir, "build", "jobs", group, "--all", "--output", "json")
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	built := map[string]string{}
	for _, j := range answer.Jobs {
		assert.True(t, j.State == "Built" && j.Finished.Reused == "", "%s is %s, and of job %q", j.Package, j.State, j.Finished.Reused)
		built[j.Package] = j.Finished.Artifact
	}
	return built
}

// entry matches a package as the file has it: its line, and those that are within it.
var entry = regexp.MustCompile(`(?m)^  [a-z]+:.*\n(?:    .*\n)*`)

// reversed is a file with its packages in the reverse order.
func reversed(t *testing.T, text []byte) []byte {
	before, after, found := bytes.Cut(text, []byte("\npackages:\n"))
	all := entry.FindAll(after, -1)
	require.True(t, found && bytes.Equal(bytes.Join(all, nil), after), "the packages are not where they are looked for:\n%s", after)
	slices.Reverse(all)
	return slices.Concat(before, []byte("\npackages:\n"), bytes.Join(all, nil))
}

// layerOf is the file with the contents of an artifact.
func layerOf(t *testing.T, dir, digest string) string {
	blob := func(digest string) string {
		return filepath.Join(dir, ".deployster/artifacts/blobs/sha256", strings.TrimPrefix(digest, "sha256:"))
	}
	text, err := os.ReadFile(blob(digest))
	var manifest struct{ Layers []struct{ Digest string } }
	if err == nil {
		err = json.Unmarshal(text, &manifest)
	}
	if err == nil && len(manifest.Layers) != 1 {
		err = fmt.Errorf("it has %d layers", len(manifest.Layers))
	}
	require.NoError(t, err, "reading artifact %s", digest)
	return blob(manifest.Layers[0].Digest)
}
