//go:build linux

package oci

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/entrypoint"
)

// probeRef names the suite's image in the engines of these tests.
const probeRef = "deployster-enginetest:probe"

// This test binary does something else when this variable says so.
const actAs = "DEPLOYSTER_TEST_ACT_AS"

func TestMain(m *testing.M) {
	entrypoint.Dispatch()
	switch os.Getenv(actAs) {
	case actRun:
		runForever()
	case actLose:
		loseFirstThread()
	case actDie:
		die()
	case actOpen:
		sayHowOpenWent()
	case "":
		os.Exit(enginetest.Main(m, "TestWithoutRoot", "TestForbiddenUserNamespaces", "TestWhatAMachineWithoutUserNamespacesCanNotTestIsNamed"))
	default: // never the tests: they would start themselves again, and again
		os.Exit(1)
	}
}

// open opens an engine with directories of its own.
func open(tb testing.TB) *Engine {
	tb.Helper()
	return openWith(tb, Options{CacheDir: tb.TempDir(), RunDir: tb.TempDir()})
}

// openWith opens an engine, and checks at the end of the test that it has left
// nothing.
func openWith(tb testing.TB, options Options) *Engine {
	tb.Helper()
	e, err := Open(tb.Context(), options)
	require.NoError(tb, err, "these tests need root, runc and overlayfs")
	tb.Cleanup(func() {
		assert.NoError(tb, e.Close())
		if ids, err := e.dir.ids(); err != nil || len(ids) > 0 {
			tb.Errorf("left in the run directory: %v (%v)", ids, err)
		}
	})
	return e
}

// loadProbe puts the probe's image into the engine and returns its tar.
func loadProbe(tb testing.TB, e *Engine) []byte {
	tb.Helper()
	tar, err := enginetest.ImageTar(probeRef, enginetest.ProbeImage(tb, ""))
	require.NoError(tb, err)
	require.NoError(tb, e.Load(tb.Context(), bytes.NewReader(tar)))
	return tar
}

// probe is a run of the probe.
func probe(args ...string) engine.Spec {
	return engine.Spec{Image: probeRef, Args: args}
}
