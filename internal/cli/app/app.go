// Package app is the process as the commands see it: its streams and printer, the
// flags of all commands, the deployment log, and the crash reports it writes.
package app

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
)

// App is the process as the commands see it.
type App struct {
	*output.Printer

	In        *os.File
	Workspace string // the directory in which the command was started
	Global    GlobalFlags
	Crashes   Crashes
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
	Unbounded   bool // --allow-unbounded
	Log         string
	Parallelism int
}

// FindWorkspace finds the directory in which the command was started.
func (a *App) FindWorkspace() (err error) {
	if a.Workspace, err = os.Getwd(); err != nil {
		return fmt.Errorf("finding the workspace: %w", err)
	}
	return nil
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
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<30 {
		return 0
	}
	return maxEntities(int(limit.Cur), a.Global.Parallelism)
}

// maxEntities leaves as many files as work at full parallelism is known to need, but
// no more than half of all.
func maxEntities(files, parallelism int) int {
	const process, work = 64, 20
	return max(1, files-min(process+work*parallelism, files/2))
}
