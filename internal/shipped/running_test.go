//go:build linux

package shipped

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

// What the running program is found to be is remembered, and not after another took its
// place.
func TestTheRunningProgramIsReadAgainWhenItIsAnother(t *testing.T) {
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "deployster"), static(t))
	i := &Images{source: Source{Executable: path, GOOS: "linux", GOARCH: "amd64"}, options: Options{OS: "linux", Arch: "amd64"}}
	info := must.Get(os.Stat(path))(t)
	id, changed := identityOf(info)
	first := must.Get(i.binary())(t)
	assert.True(t, i.running.identity == "" || time.Since(changed) >= recently, "a file that changed just now was remembered")
	// As it would be some seconds later.
	i.running = ownProgram{id, Binary{Path: path, Arch: "amd64", SHA256: "remembered"}}
	<-time.After(time.Until(changed.Add(recently)))
	b, err := i.binary()
	assert.True(t, err == nil && b.SHA256 == "remembered", "it was read again: %+v, %v", b, err)
	put(t, filepath.Join(dir, "new"), append(static(t), 0))
	require.NoError(t, os.Rename(filepath.Join(dir, "new"), path))
	b, err = i.binary()
	assert.True(t, err == nil && b.SHA256 != "remembered" && b.SHA256 != first.SHA256, "another is taken for it: %+v, %v", b, err)
}
