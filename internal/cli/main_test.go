package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/enginetest"
)

// The images of these tests, made of the programs below testdata.
const slowType = "deployster-test-slowtype:1"

// binary is the deployster under test: the real one, static as it is shipped,
// because it also becomes the image of the types that ship with it.
var binary string

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "deployster-cli-test-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary = filepath.Join(dir, "deployster")
	if err := build(binary, "../../cmd/deployster"); err != nil {
		return 1, err
	}
	if err := loadSlowType(dir); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, removeImages()) }()
	return m.Run(), nil
}

func build(to, pkg string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-o", to, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}

func loadSlowType(dir string) error {
	program := filepath.Join(dir, "slowtype")
	if err := build(program, "./testdata/slowtype"); err != nil {
		return err
	}
	image, err := enginetest.BuildImage(enginetest.ImageSpec{Binary: program, Entrypoint: []string{"/slowtype"}})
	if err != nil {
		return err
	}
	tar, err := enginetest.ImageTar(slowType, image)
	if err != nil {
		return err
	}
	ctx := context.Background()
	e, err := docker.Open(ctx, docker.Options{})
	if err != nil {
		return err
	}
	return errors.Join(e.Load(ctx, bytes.NewReader(tar)), e.Close())
}

// removeImages removes what the tests put into the engine: images only, since
// a container that is left is a fault that must show.
func removeImages() error {
	out, err := exec.Command("docker", "image", "ls", "--quiet", "--filter", "reference=deployster/*", "--filter", "reference="+slowType).Output()
	if err != nil {
		return fmt.Errorf("listing images: %w", err)
	}
	if ids := strings.Fields(string(out)); len(ids) > 0 {
		if out, err := exec.Command("docker", append([]string{"image", "rm", "--force"}, ids...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("removing images: %w\n%s", err, out)
		}
	}
	return nil
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("DOCKER_HOST", os.Getenv("DOCKER_HOST"))
			env.Setenv("SLOWTYPE", slowType)
			return os.Mkdir(env.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a command and demands its exit code: exits CODE COMMAND…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("%s exited with %d, want %d\n%s", strings.Join(args[1:], " "), got, want, ts.ReadFile("stderr"))
	}
}
