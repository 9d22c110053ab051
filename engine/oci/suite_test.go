//go:build linux

package oci

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
)

func TestOCIPassesTheSuite(t *testing.T) {
	e, cache := openWithCache(t, "")
	tar := loadProbe(t, e)
	for _, network := range []string{"host", "none"} {
		t.Run(network, func(t *testing.T) { passTheSuite(t, e, cache, tar, network) })
	}
}

// Other runtimes create a container before they start it. The runtime that is
// always there does so, too, when asked to; crun is tested where there is one.
func TestOtherRuntimesPassTheSuite(t *testing.T) {
	t.Run("runc in steps", func(t *testing.T) {
		e, cache := openWithCache(t, "")
		e.keeps = false
		passTheSuite(t, e, cache, loadProbe(t, e), "none")
	})
	if _, err := exec.LookPath("crun"); err == nil {
		t.Run("crun", func(t *testing.T) {
			e, cache := openWithCache(t, "crun")
			passTheSuite(t, e, cache, loadProbe(t, e), "none")
		})
	}
}

func openWithCache(t *testing.T, runtime string) (*Engine, string) {
	t.Helper()
	cache := t.TempDir()
	return openWith(t, Options{CacheDir: cache, RunDir: t.TempDir(), Runtime: runtime}), cache
}

func passTheSuite(t *testing.T, e *Engine, cache string, tar []byte, network string) {
	enginetest.Run(t, func(*testing.T) engine.Engine { return e }, enginetest.Images{
		Probe: probeRef, Tar: tar, Network: network,
		Caller: func(t *testing.T, order string) *exec.Cmd {
			command := exec.CommandContext(t.Context(), "/proc/self/exe", order)
			command.Env = append(os.Environ(), actAs+"="+actDie, "TEST_CACHE="+cache, "TEST_RUN="+string(e.dir), "TEST_RUNTIME="+e.runtime)
			return command
		},
	})
}

// actDie makes this test binary run a container and be killed.
const actDie = "die"

func die() {
	e, err := Open(context.Background(), Options{
		CacheDir: os.Getenv("TEST_CACHE"), RunDir: os.Getenv("TEST_RUN"), Runtime: os.Getenv("TEST_RUNTIME"),
	})
	if err == nil {
		err = enginetest.Die(e, os.Args[1])
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
