// Package app is the process as the commands see it: its streams and printer, the
// flags of all commands, the deployment log, and the crash reports it writes.
package app

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/tracing"
	"github.com/deployster-go/deployster/inventory"
)

// App is the process as the commands see it.
type App struct {
	*output.Printer

	In        *os.File
	Workspace string // the directory in which the command was started
	Global    GlobalFlags
	Crashes   Crashes
	Commands  Commands

	database database // of a log that is in one
	suspends interrupt.Suspends

	tunnels tunnels // to engines behind ssh

	tracer *tracing.Tracer // of this command, once a run is prepared and the environment asks for it
}

// New is the process with its standard streams.
func New() *App {
	return &App{In: os.Stdin, Printer: &output.Printer{Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Now: time.Now, Version: version()}}
}

// releaseVersion is the version of binaries that were not built as a module at
// a version.
const releaseVersion = "0.1.0-dev"

// version is that of the module as it was built.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return releaseVersion
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

// GlobalFlags are the flags of all commands, but for those of the Printer.
type GlobalFlags struct {
	Engine      string
	OciRuntime  string
	Unbounded   bool                 // --allow-unbounded
	Kubernetes  inventory.Kubernetes // but for its TypesImage, which a flag of commands that run containers names
	Log         string
	Server      string
	Parallelism int
}

// FindWorkspace finds the directory in which the command was started.
func (a *App) FindWorkspace() (err error) {
	if a.Workspace, err = os.Getwd(); err != nil {
		return fmt.Errorf("finding the workspace: %w", err)
	}
	return nil
}

// Traces makes spans of runs; nil is that the environment does not ask for any.
func (a *App) Traces() (*tracing.Tracer, error) {
	if a.tracer == nil {
		var err error
		if a.tracer, err = tracing.New(tracing.Options{Getenv: a.Getenv, Version: a.Version, Notice: a.Notice}); err != nil {
			return nil, exit.Usage("%w", err)
		}
	}
	return a.tracer, nil
}

// CloseTraces sends what is left of the spans.
func (a *App) CloseTraces() {
	if a.tracer != nil {
		a.tracer.Close()
	}
}

// WithoutTLS is the environment without what it says of the TLS of Docker, which
// the inventory says for each host.
func (a *App) WithoutTLS(name string) string {
	if strings.HasPrefix(name, "DOCKER_TLS") || name == "DOCKER_CERT_PATH" {
		return ""
	}
	return a.Getenv(name)
}

// CheckParallelism refuses a wrong value of --parallelism.
func (a *App) CheckParallelism() error {
	if a.Global.Parallelism < 1 {
		return exit.Usage("--parallelism %d: it must be at least 1", a.Global.Parallelism)
	}
	return nil
}

// NewID is the id of something that begins now.
func (a *App) NewID() string {
	return ulid.MustNew(ulid.Timestamp(a.Now()), rand.Reader).String()
}

// Whoami is the user of the process, for the log.
func Whoami() string {
	who := runs.Who()
	return strings.TrimSuffix(cmp.Or(who["user"], "unknown")+"@"+who["host"], "@")
}

// MaxEntities is how many pipelines or environments this process can control: each
// keeps a file open, and the engines and programs of its work need some, too. 0 is any
// number.
func (a *App) MaxEntities() int {
	if _, is := a.logURL(); is { // whose locks are no files
		return 0
	}
	files, bounded := openFiles()
	if !bounded {
		return 0
	}
	return maxEntities(files, a.Global.Parallelism, a.MaxServing())
}

// openFiles is how many files this process may have open.
func openFiles() (files int, bounded bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<30 {
		return 0, false
	}
	return int(limit.Cur), true
}

// filesServing is how many files this process has open for a process that serves.
const filesServing = 6

// maxEntities leaves as many files as work at full parallelism is known to need, and
// the processes that serve, but no more than half of all.
func maxEntities(files, parallelism, serving int) int {
	const process, work = 64, 20
	return max(1, files-min(process+work*parallelism+filesServing*serving, files/2))
}

// MaxServing is how many processes of types a controller keeps for the steps to come:
// as many as a quarter of the memory that is free has room for, and an eighth of the
// files. It is 0 where the system does not say how much memory is free.
func (a *App) MaxServing() int {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	files, bounded := openFiles()
	if !bounded {
		files = 1 << 30
	}
	return maxServing(files, string(text))
}

func maxServing(files int, meminfo string) int {
	const most, each = 512, 24 << 10 // KiB
	_, free, _ := strings.Cut(meminfo, "\nMemAvailable:")
	free, _, _ = strings.Cut(strings.TrimSpace(free), " ")
	available, err := strconv.Atoi(free)
	if err != nil {
		return 0
	}
	return min(most, available/4/each, files/8/filesServing)
}
