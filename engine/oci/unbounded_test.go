//go:build linux

package oci

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// withoutCgroups says that this test binary runs where it may unmount control
// groups without anybody else noticing.
const withoutCgroups = "DEPLOYSTER_TEST_WITHOUT_CGROUPS"

// The test executes itself in a mount namespace without control groups.
func TestWithoutControlGroups(t *testing.T) {
	if os.Getenv(withoutCgroups) == "" {
		command := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestWithoutControlGroups$", "-test.count=1")
		command.Env = append(os.Environ(), withoutCgroups+"=1")
		command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
		if said, err := command.CombinedOutput(); err != nil || !bytes.Contains(said, []byte("PASS")) {
			t.Errorf("%v\n%s", err, said)
		}
		return
	}
	require.NoError(t, errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH),
	))

	_, err := Open(t.Context(), Options{CacheDir: t.TempDir(), RunDir: t.TempDir()})
	if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "--allow-unbounded") {
		t.Errorf("without control groups: %v; want it to be unavailable, and the way out", err)
	}

	for _, runtime := range []string{"runc", "crun"} {
		t.Run(runtime, func(t *testing.T) {
			var log bytes.Buffer
			e := openWith(t, Options{
				CacheDir: t.TempDir(), RunDir: t.TempDir(), Runtime: runtime, AllowUnbounded: true,
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			info, err := e.Info(t.Context())
			require.NoError(t, err)
			assert.Contains(t, info.Address, "not bounded")
			tar := loadProbe(t, e)
			if ringtest.All() { // else by one container, and TestWithoutRoot, which has no control groups either
				enginetest.Run(t, func(*testing.T) engine.Engine { return e }, enginetest.Images{
					Probe: probeRef, Tar: tar, Network: "none", NoLimits: true,
				})
			}
			spec := probe("exit", "0")
			spec.Memory = 64 << 20
			stdoutOf(t, e, spec)
			assert.Equal(t, 1, strings.Count(log.String(), "not bounded"), "want one warning: %s", &log)
			assert.Equal(t, 1, strings.Count(log.String(), "level=WARN"), "want one warning: %s", &log)
		})
	}
}

// What is allowed changes nothing where there are control groups.
func TestBoundsAreKeptWhereTheyCanBe(t *testing.T) {
	e := openWith(t, Options{CacheDir: t.TempDir(), RunDir: t.TempDir(), AllowUnbounded: true})
	loadProbe(t, e)
	spec := probe("allocate", "200000000")
	spec.Memory = 64 << 20
	if exit, err := e.Run(t.Context(), spec, engine.IO{}); err != nil || exit.Code != killed {
		t.Errorf("exit %+v, error %v; want it to be killed for lack of memory", exit, err)
	}
}
