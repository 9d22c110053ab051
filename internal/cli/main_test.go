package cli_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/internal/cli"
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/pullrequest/forgetest"
	"github.com/deployster-go/deployster/internal/ringtest"
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
	maker       = fmt.Sprintf("deployster-test-maker:%d", os.Getpid())       // it builds packages
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
	flag.Parse()
	if !given("test.parallel") { // most of these tests wait for processes
		err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
		if err != nil {
			panic(err)
		}
	}
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func given(name string) (is bool) {
	flag.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

func runTests(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "deployster-cli-test-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary = filepath.Join(dir, "deployster")
	defer func() { err = errors.Join(err, lasting.end(), removePostgres()) }()
	for program, pkg := range map[string]string{
		"deployster": "../../cmd/deployster", "terraform-provider-fake": "../../resources/internal/tftest/provider",
		"slowtype": "./testdata/slowtype", "maker": "./testdata/maker",
	} {
		if err := build(filepath.Join(dir, program), pkg); err != nil {
			return 1, err
		}
	}
	if err := environment(dir); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, removeImages()) }()
	if err := loadImages(dir); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// environment is that of all commands under test. Their cache goes with them, and those that
// name no engine use the oci engine: it costs a tenth of Docker.
func environment(dir string) error {
	gocache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("finding the cache of builds: %w", err)
	}
	nowhere, err := dockerContext(filepath.Join(dir, "nowhere"), "nowhere", "unix:///nowhere/docker.sock")
	return errors.Join(err,
		os.Setenv("GOCACHE", strings.TrimSpace(string(gocache))), // else it is in the next one
		os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache")),
		os.Unsetenv("DOCKER_HOST"), // --engine auto would use no other engine
		os.Setenv("DOCKER_CONFIG", nowhere),
	)
}

// dockerContext writes Docker's configuration with a context, which is the current one.
func dockerContext(dir, name, address string) (string, error) {
	sum := sha256.Sum256([]byte(name))
	meta := filepath.Join(dir, "contexts", "meta", hex.EncodeToString(sum[:]))
	return dir, errors.Join(
		os.MkdirAll(meta, 0o700),
		os.WriteFile(filepath.Join(dir, "config.json"), fmt.Appendf(nil, `{"currentContext": %q}`, name), 0o600),
		os.WriteFile(filepath.Join(meta, "meta.json"), fmt.Appendf(nil, `{"Name": %q, "Metadata": {}, "Endpoints": {"docker": {"Host": %q, "SkipTLSVerify": false}}}`, name, address), 0o600),
	)
}

// dockerAddress is the Docker Engine of this machine.
const dockerAddress = "unix:///var/run/docker.sock"

func build(to, pkg string) error {
	// A build that nobody else has: the images of its types are these tests'.
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", fmt.Sprintf("-s -w -buildid=deployster-cli-%d", os.Getpid()), "-o", to, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}

var images = map[string]v1.Image{}

// dockerImages are those that tests use on Docker.
var dockerImages = []string{slowType, oneShotType, fixedType, silentType, spyType}

// loadImages gives the images to the oci engine, and those that tests use on Docker to that.
func loadImages(dir string) error {
	ctx := context.Background()
	onDocker, err := docker.Open(ctx, docker.Options{Host: dockerAddress})
	if err != nil {
		return err
	}
	defer func() { _ = onDocker.Close() }()
	onOCI, err := oci.Open(ctx, oci.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = onOCI.Close() }()
	for ref, entrypoint := range map[string][]string{
		slowType: {"/slowtype"}, fixedType: {"/slowtype", "fixed"}, oneShotType: {"/slowtype", "one-shot"}, keepType: {"/slowtype", "keeping"},
		spyType: {"/slowtype", "spy"}, tooledType: {"/slowtype", "tooled", tool, "declares"}, silentType: {"/slowtype", "tooled", tool, "silent"},
		louderType: {"/slowtype", "louder"}, maker: {"/maker"},
	} {
		images[ref], err = enginetest.BuildImage(enginetest.ImageSpec{Binary: filepath.Join(dir, entrypoint[0]), Entrypoint: entrypoint})
		if err != nil {
			return err
		}
		tar, err := enginetest.ImageTar(ref, images[ref])
		if err != nil {
			return err
		}
		if ref == slowType {
			err = os.WriteFile(slowTypeTar(dir), tar, 0o600)
		}
		if err := errors.Join(err, onOCI.Load(ctx, bytes.NewReader(tar))); err != nil {
			return err
		}
		if slices.Contains(dockerImages, ref) {
			if err := onDocker.Load(ctx, bytes.NewReader(tar)); err != nil {
				return err
			}
		}
	}
	return nil
}

// slowTypeTar is where loadImages leaves the image as a file.
func slowTypeTar(dir string) string { return filepath.Join(dir, "slowtype.tar") }

// removeImages removes what the tests put into Docker: images only, since a container that is
// left is a fault that must show.
func removeImages() error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	told, err := exec.Command(binary, "version").Output()
	if err != nil {
		return fmt.Errorf("asking for the version: %w", err)
	}
	images := slices.Concat(shippedImages(program, strings.Fields(string(told))[1]), dockerImages,
		[]string{movedType, movedType + "x", movedType + "h"})
	// Not every test made all of them.
	args := append([]string{"--host", dockerAddress, "image", "rm", "--force"}, images...)
	if out, err := exec.Command("docker", args...).CombinedOutput(); err != nil && !strings.Contains(string(out), "No such image") {
		return fmt.Errorf("removing images: %w\n%s", err, out)
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

func scripts(t *testing.T, dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition: func(name string) (bool, error) {
			if name != "all" {
				return false, fmt.Errorf("unknown condition %q: all", name)
			}
			return ringtest.All(), nil
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("BIN", filepath.Dir(binary))
			env.Setenv("DOCKER_CONFIG", os.Getenv("DOCKER_CONFIG"))
			env.Setenv("XDG_CACHE_HOME", os.Getenv("XDG_CACHE_HOME"))
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
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "forge": newForges(t).command, "tag": tag},
	}
}

// tag gives one of the images of these tests a name in the cache of the oci engine, which is moved,
// and prints which content it has: tag IMAGE NAME.
func tag(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || images[args[0]] == nil {
		ts.Fatalf("usage: tag IMAGE NAME")
	}
	e, err := oci.Open(context.Background(), oci.Options{CacheDir: filepath.Join(ts.Getenv("XDG_CACHE_HOME"), "deployster", "oci")})
	ts.Check(err)
	defer func() { _ = e.Close() }()
	tar, err := enginetest.ImageTar(args[1], images[args[0]])
	ts.Check(err)
	loaded, err := e.LoadFrom(context.Background(), bytes.NewReader(tar), nil)
	ts.Check(err)
	_, err = fmt.Fprintln(ts.Stdout(), loaded[0].ID)
	ts.Check(err)
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

// forges are the places of git repositories that scripts begin, which want a token of whoever
// asks.
type forges struct {
	testing.TB
	mu  sync.Mutex
	all map[*testscript.TestScript]*forgetest.Forge
}

func newForges(t testing.TB) *forges {
	return &forges{TB: t, all: map[*testscript.TestScript]*forgetest.Forge{}}
}

// scripted is a test whose failures are those of a script, with which it ends.
type scripted struct {
	testing.TB
	ts *testscript.TestScript
}

func (s scripted) Fatal(args ...any)                 { s.ts.Fatalf("%v", args) }
func (s scripted) Fatalf(format string, args ...any) { s.ts.Fatalf(format, args...) }
func (s scripted) Cleanup(end func())                { s.ts.Defer(end) }
func (s scripted) TempDir() string {
	dir, err := os.MkdirTemp(s.ts.Getenv("WORK"), "forge")
	s.ts.Check(err)
	return dir
}

// command is one of
//
//	forge start KIND FILE…    a repository with the files, whose URL is $REPOSITORY
//	forge show BRANCH FILE    what a file has on a branch, as stdout
//	forge pulls               the pull requests, as stdout
//	forge requests            what was asked since, as stdout
func (f *forges) command(ts *testscript.TestScript, neg bool, args []string) {
	const usage = "usage: forge start KIND FILE…|show BRANCH FILE|pulls|requests"
	if neg || len(args) == 0 {
		ts.Fatalf(usage)
	}
	f.mu.Lock()
	forge := f.all[ts]
	f.mu.Unlock()
	switch {
	case args[0] == "start" && len(args) > 2 && forge == nil:
		files := map[string]string{}
		for _, name := range args[2:] {
			files[name] = ts.ReadFile(name)
		}
		forge = forgetest.New(scripted{f.TB, ts}, args[1], files)
		ts.Setenv("REPOSITORY", forge.Address())
		f.mu.Lock()
		f.all[ts] = forge
		f.mu.Unlock()
	case args[0] == "show" && len(args) == 3 && forge != nil:
		_, err := ts.Stdout().Write([]byte(forge.Show(args[1], args[2])))
		ts.Check(err)
	case args[0] == "pulls" && forge != nil:
		for _, p := range forge.Pulls() {
			_, err := ts.Stdout().Write([]byte(p.State + " " + p.Branch + ": " + p.Title + "\n"))
			ts.Check(err)
		}
	case args[0] == "requests" && forge != nil:
		_, err := ts.Stdout().Write([]byte(strings.Join(forge.Requests(), "\n") + "\n"))
		ts.Check(err)
	default:
		ts.Fatalf(usage)
	}
}
