package enginetest

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/deployster-go/deployster/engine/enginetest/internal/probe"
)

// probePath is where the probe is in its image.
const probePath = "/probe"

// probeConfig is the configuration of the probe's image; the suite relies on it.
func probeConfig() ImageSpec {
	return ImageSpec{
		Path:       probePath,
		Entrypoint: []string{probePath},
		Cmd:        []string{"args", "of", "the image"},
		Env:        []string{"PROBE_IMAGE=image", "PROBE_BOTH=image"},
		WorkDir:    "/image/dir",
		Files: map[string]string{ //nolint:gosec // nobody has a password
			"/etc/passwd": "root:x:0:0::/root:/none\ncrew:x:1500:1600::/home/crew:/none\n",
			"/etc/group":  "root:x:0:\ncrew:x:1600:\naudio:x:1700:crew\nvideo:x:1800:nobody,crew\n",
			"/tmp/":       "",
		},
	}
}

// ProbeImage builds the suite's image around a static binary that it compiles
// for arch (a GOARCH; "" is this machine's).
func ProbeImage(tb testing.TB, arch string) v1.Image {
	tb.Helper()
	spec := probeConfig()
	spec.Arch = arch
	if spec.Arch == "" {
		spec.Arch = runtime.GOARCH
	}
	spec.Binary = Binary(tb, "github.com/deployster-go/deployster/engine/enginetest/probe", spec.Arch)
	image, err := BuildImage(spec)
	if err != nil {
		tb.Fatal(err)
	}
	return image
}

// compiled holds the programs that this process has compiled, by package and architecture: to link
// one takes longer than most tests.
var compiled sync.Map

// Binary compiles a main package of this module to a static Linux binary in a
// temporary directory and returns its path.
func Binary(tb testing.TB, pkg, arch string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), filepath.Base(pkg))
	once, _ := compiled.LoadOrStore(pkg+" for "+arch, sync.OnceValues(func() ([]byte, error) {
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if output, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go build %s: %w\n%s", pkg, err, output)
		}
		return os.ReadFile(file)
	}))
	content, err := once.(func() ([]byte, error))()
	if err != nil {
		tb.Fatal(err)
	}
	// What is forked meanwhile would have the file open, and nobody could execute it.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(file, content, 0o755); err != nil { //nolint:gosec // containers of other users execute it
		tb.Fatal(err)
	}
	return file
}

// FakeProbe is the probe's image for the Fake: the same program, as a function.
func FakeProbe() FakeImage {
	config := probeConfig()
	return FakeImage{
		Program:     runProbe,
		Entrypoint:  config.Entrypoint,
		Cmd:         config.Cmd,
		Env:         config.Env,
		WorkDir:     config.WorkDir,
		Executables: []string{probePath},
	}
}

func runProbe(ctx context.Context, call Call) int {
	return probe.Run(ctx, probe.Process{
		Args:   call.Args,
		Env:    call.Env,
		Dir:    call.WorkDir,
		User:   call.User,
		Stdin:  call.Stdin,
		Stdout: call.Stdout,
		Stderr: call.Stderr,
		ReadFile: func(name string) ([]byte, error) {
			host, _, err := call.Host(name)
			if err != nil {
				return nil, err
			}
			return os.ReadFile(host)
		},
		WriteFile: func(name string, content []byte) error {
			host, readOnly, err := call.Host(name)
			if err == nil && readOnly {
				err = &fs.PathError{Op: "open", Path: name, Err: syscall.EROFS}
			}
			if err != nil {
				return err
			}
			return os.WriteFile(host, content, 0o600)
		},
		Die: func() int { return killedCode },
	})
}
