package killloop

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/ringtest"
)

var (
	kills = flag.Int("kills", ringtest.Cases(0, 5), "how many times each loop kills")
	seed  = flag.Uint64("seed", 0, "seed of the first round; 0 is another one each time")
)

// images is how many images of the type there are, which tests put under its tag.
const images = 3

// shared is what all rounds use: the program, and the cache with the images.
var shared struct{ dir, binary string }

func TestMain(m *testing.M) {
	entrypoint.Dispatch()
	flag.Parse()
	if *kills == 0 {
		return // as in "make test": see the comment of the package
	}
	code, err := prepared(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func prepared(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "deployster-kill-loop-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	shared.dir, shared.binary = dir, filepath.Join(dir, "deployster")
	program := filepath.Join(dir, "journaltype")
	for to, pkg := range map[string]string{shared.binary: "../../cmd/deployster", program: "./testdata/journaltype"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", to, pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("building %s: %w\n%s", pkg, err, out)
		}
	}
	for i := range images {
		image, err := enginetest.BuildImage(enginetest.ImageSpec{Binary: program, Entrypoint: []string{"/journaltype"}, Env: []string{fmt.Sprintf("IMAGE=%d", i)}})
		if err != nil {
			return 1, err
		}
		tar, err := enginetest.ImageTar("journal:1", image)
		if err != nil {
			return 1, err
		}
		if err := os.WriteFile(imageFile(i), tar, 0o600); err != nil {
			return 1, err
		}
	}
	if err := os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache")); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func imageFile(i int) string { return filepath.Join(shared.dir, fmt.Sprintf("image%d.tar", i)) }

// moveTag puts an image under the tag of the type.
func (w *world) moveTag(i int) {
	w.Helper()
	tar, err := os.ReadFile(imageFile(i))
	require.NoError(w, err)
	require.NoError(w, w.engine(func(e *oci.Engine) error { return e.Load(context.Background(), bytes.NewReader(tar)) }))
	w.image = i
}

// engine opens the engine of this machine for a moment.
func (w *world) engine(do func(*oci.Engine) error) error {
	w.Helper()
	e, err := oci.Open(context.Background(), oci.Options{})
	if err != nil {
		return err
	}
	return errors.Join(do(e), e.Close())
}
