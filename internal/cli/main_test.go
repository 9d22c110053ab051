package cli_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/cli"
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/shipped"
)

// The images of these tests, made of the programs below testdata. They are this
// process's own, so that others may test beside it.
var (
	slowType    = fmt.Sprintf("deployster-test-slowtype:%d", os.Getpid())
	fixedType   = fmt.Sprintf("deployster-test-fixedtype:%d", os.Getpid())   // slowType, but it cannot remove
	movedType   = fmt.Sprintf("deployster-test-movedtype:%d", os.Getpid())   // a tag that tests move
	oneShotType = fmt.Sprintf("deployster-test-oneshottype:%d", os.Getpid()) // slowType, but it does not serve
	keepType    = fmt.Sprintf("deployster-test-keeptype:%d", os.Getpid())    // slowType, but it finds things by what it kept
	spyType     = fmt.Sprintf("deployster-test-spytype:%d", os.Getpid())     // it looks for what it may not see
	tool        = fmt.Sprintf("deployster-test-tool:%d", os.Getpid())        // a tag that tests move, of the image of actions
	tooledType  = fmt.Sprintf("deployster-test-tooledtype:%d", os.Getpid())  // slowType, with actions that run the tool
	silentType  = fmt.Sprintf("deployster-test-silenttype:%d", os.Getpid())  // tooledType, but its init does not say so
	louderType  = fmt.Sprintf("deployster-test-loudertype:%d", os.Getpid())  // a tool that does not do what is asked
)

// binary is the deployster under test: the real one, static as it is shipped,
// because it also becomes the image of the types that ship with it.
var binary string

func TestMain(m *testing.M) {
	entrypoint.Dispatch()
	if len(os.Args) > 1 && os.Args[1] == "type" { // a static test is in the images of its types
		os.Exit(cli.Main(os.Args[1:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "panic" {
		os.Exit(cli.Panicking(os.Args[1:]))
	}
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
	defer func() { err = errors.Join(err, removePostgres()) }()
	if err := build(binary, "../../cmd/deployster"); err != nil {
		return 1, err
	}
	if err := build(filepath.Join(dir, "terraform-provider-fake"), "../../resources/internal/tftest/provider"); err != nil {
		return 1, err
	}
	if err := loadSlowType(dir); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, removeImages()) }()
	// What programs under test remember goes with them; go build, above, has
	// its cache there, too.
	if err := os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache")); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func build(to, pkg string) error {
	// A build that nobody else has: the images of its types are these tests'.
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", fmt.Sprintf("-s -w -buildid=deployster-cli-%d", os.Getpid()), "-o", to, pkg)
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
	ctx := context.Background()
	e, err := docker.Open(ctx, docker.Options{})
	if err != nil {
		return err
	}
	for ref, entrypoint := range map[string][]string{
		slowType: {"/slowtype"}, fixedType: {"/slowtype", "fixed"}, oneShotType: {"/slowtype", "one-shot"}, keepType: {"/slowtype", "keeping"}, spyType: {"/slowtype", "spy"},
		tooledType: {"/slowtype", "tooled", tool, "declares"}, silentType: {"/slowtype", "tooled", tool, "silent"}, louderType: {"/slowtype", "louder"},
	} {
		image, err := enginetest.BuildImage(enginetest.ImageSpec{Binary: program, Entrypoint: entrypoint})
		if err != nil {
			return errors.Join(err, e.Close())
		}
		tar, err := enginetest.ImageTar(ref, image)
		if err != nil {
			return errors.Join(err, e.Close())
		}
		if err := e.Load(ctx, bytes.NewReader(tar)); err != nil {
			return errors.Join(err, e.Close())
		}
		if ref != slowType {
			continue
		}
		if err := os.WriteFile(slowTypeTar(dir), tar, 0o600); err != nil {
			return errors.Join(err, e.Close())
		}
	}
	return e.Close()
}

// slowTypeTar is where loadSlowType leaves the image as a file.
func slowTypeTar(dir string) string { return filepath.Join(dir, "slowtype.tar") }

// removeImages removes what the tests put into the engine: images only, since
// a container that is left is a fault that must show.
func removeImages() error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	told, err := exec.Command(binary, "version").Output()
	if err != nil {
		return fmt.Errorf("asking for the version: %w", err)
	}
	for _, image := range append(shippedImages(program, strings.Fields(string(told))[1]), slowType, fixedType, oneShotType, keepType, spyType, movedType, movedType+"x", movedType+"h", movedType+"l", tool, tooledType, silentType, louderType) {
		// Not every test made all of them.
		if out, err := exec.Command("docker", "image", "rm", "--force", image).CombinedOutput(); err != nil && !strings.Contains(string(out), "No such image") {
			return fmt.Errorf("removing images: %w\n%s", err, out)
		}
	}
	return nil
}

// shippedImages are the images that a build of deployster makes of its types.
func shippedImages(program []byte, version string) []string {
	sum := sha256.Sum256(program)
	var tags []string
	for _, name := range shipped.Names() {
		tags = append(tags, shipped.Tag(name, version, shipped.Binary{Arch: runtime.GOARCH, SHA256: hex.EncodeToString(sum[:])}))
	}
	return tags
}

func TestScripts(t *testing.T) { testscript.Run(t, scripts(t, "testdata/script")) }

// scripts is how the scripts in a directory are run.
func scripts(t *testing.T, dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("BIN", filepath.Dir(binary))
			env.Setenv("DOCKER_HOST", os.Getenv("DOCKER_HOST"))
			env.Setenv("SLOWTYPE", slowType)
			env.Setenv("FIXEDTYPE", fixedType)
			env.Setenv("MOVEDTYPE", movedType)
			env.Setenv("ONESHOTTYPE", oneShotType)
			env.Setenv("KEEPTYPE", keepType)
			env.Setenv("SPYTYPE", spyType)
			env.Setenv("TOOL", tool)
			env.Setenv("TOOLEDTYPE", tooledType)
			env.Setenv("SILENTTYPE", silentType)
			env.Setenv("LOUDERTYPE", louderType)
			env.Setenv("PROVIDER", filepath.Join(filepath.Dir(binary), "terraform-provider-fake"))
			env.Setenv("SLOWTYPE_TAR", slowTypeTar(filepath.Dir(binary)))
			env.Setenv("PID", strconv.Itoa(os.Getpid()))
			return os.MkdirAll(env.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "forge": newForges(t).command},
	}
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
