//go:build linux

package oci

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/ringtest"
)

func TestOCIPassesTheSuite(t *testing.T) {
	networks := []string{"none"}
	if ringtest.All() { // else by a case of the suite
		networks = append(networks, "host")
	}
	e, cache := openWithCache(t, "")
	tar := loadProbe(t, e)
	for _, network := range networks {
		t.Run(network, func(t *testing.T) { passTheSuite(t, e, cache, tar, network) })
	}
}

// Other runtimes create a container before they start it. The runtime that is
// always there does so, too, when asked to. In "make test" one container shows that,
// and TestOCIPassesTheSuite all else.
func TestOtherRuntimesPassTheSuite(t *testing.T) {
	for name, runtime := range map[string]string{"runc in steps": "", "crun": "crun"} {
		t.Run(name, func(t *testing.T) {
			e, cache := openWithCache(t, runtime)
			e.keeps = false
			tar := loadProbe(t, e)
			if ringtest.All() {
				passTheSuite(t, e, cache, tar, "none")
				return
			}
			for _, held := range []bool{false, true} {
				var out bytes.Buffer
				exit, err := runProbe(t.Context(), e, held, &out)
				require.NoError(t, err)
				assert.Equal(t, engine.Exit{}, exit)
				assert.Equal(t, "x", out.String())
			}
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
