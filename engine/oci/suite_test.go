//go:build linux

package oci

import (
	"os/exec"
	"testing"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
)

func TestOCIPassesTheSuite(t *testing.T) {
	e := open(t)
	tar := loadProbe(t, e)
	for _, network := range []string{"host", "none"} {
		t.Run(network, func(t *testing.T) { passTheSuite(t, e, tar, network) })
	}
}

// Other runtimes create a container before they start it. The runtime that is
// always there does so, too, when told; crun is tested where there is one.
func TestOtherRuntimesPassTheSuite(t *testing.T) {
	t.Run("runc in steps", func(t *testing.T) {
		e := open(t)
		e.keeps = false
		passTheSuite(t, e, loadProbe(t, e), "none")
	})
	if _, err := exec.LookPath("crun"); err == nil {
		t.Run("crun", func(t *testing.T) {
			e := openWith(t, Options{CacheDir: t.TempDir(), RunDir: t.TempDir(), Runtime: "crun"})
			passTheSuite(t, e, loadProbe(t, e), "none")
		})
	}
}

func passTheSuite(t *testing.T, e *Engine, tar []byte, network string) {
	enginetest.Run(t, func(*testing.T) engine.Engine { return e }, enginetest.Images{
		Probe: probeRef, Tar: tar, Network: network,
	})
}
