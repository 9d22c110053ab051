package artifacts_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// In a child of a test, what is in this variable is collected and unpacked until it is killed.
const childVariable = "ARTIFACTS_TEST_CHILD"

func TestMain(m *testing.M) {
	if dirs := os.Getenv(childVariable); dirs != "" {
		if err := work(dirs); err != nil {
			fmt.Fprintln(os.Stdout, "failed:", err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// work stores and unpacks directories with ever other content, and says each digest.
func work(dirs string) error {
	store, dir, _ := strings.Cut(dirs, "|")
	s := artifacts.In(store)
	for i := range 100_000 {
		if err := os.WriteFile(filepath.Join(dir, "README"), fmt.Append(nil, i), 0o600); err != nil {
			return err
		}
		a, err := s.Collect(context.Background(), dir, artifacts.Limits{})
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, a.Digest)
		if _, err := s.Directory(context.Background(), a.Digest); err != nil {
			return err
		}
	}
	return nil
}

// Whenever a process is killed, what it named is there whole, and what it left half is removed
// by the next one.
func TestWhatAKilledProcessNamedIsThere(t *testing.T) {
	_, store := newStore(t)
	for round := range ringtest.Cases(5, 12) {
		dir := write(t, toolchain)
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childVariable+"="+store+"|"+dir)
		out, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		lines := bufio.NewScanner(out)
		var named []string
		for n := 1 + rand.IntN(4); len(named) < n && lines.Scan(); {
			named = append(named, lines.Text())
		}
		for range rand.IntN(2000) { // at any moment of what comes next
			_ = os.Getpid()
		}
		must(t, child.Process.Kill())
		rest, err := io.ReadAll(out)
		must(t, err)
		_ = child.Wait() // it was killed
		if lines := strings.Fields(string(rest)); len(lines) > 0 {
			named = append(named, lines[:len(lines)-1]...)
		}
		s := artifacts.In(store)
		for _, digest := range named {
			require.True(t, strings.HasPrefix(digest, "sha256:"), "round %d: it says %s", round, digest)
			must(t, s.Verify(t.Context(), digest))
			assert.NoError(t, errOf(s.Directory(t.Context(), digest)), "round %d", round)
		}
	}
	s := artifacts.In(store)
	assert.NoError(t, errOf(s.Prune(t.Context(), time.Now().Add(-time.Hour), func(string) bool { return true }, false)))
	wantNothingHalf(t, store)
	blobs, err := os.ReadDir(filepath.Join(store, "unpacked"))
	must(t, err)
	for _, blob := range blobs {
		assert.NoError(t, s.Verify(t.Context(), "sha256:"+blob.Name()))
	}
}
