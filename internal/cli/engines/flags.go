package engines

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/gc"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/lockfile"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/runner/invoke"
)

// Flags are the flags of commands that run containers.
type Flags struct {
	Pull       string
	Network    string
	typesImage string
	Memory     Size
	Pids       int64
	MaxWork    Size
	MaxWorkAll Size
	LostFor    time.Duration // see docker.Options
	noCache    bool          // see RegisterCache
	Abandon    []string      // see RegisterAbandon

	Locked   bool // an image that deployster.lock does not have is refused
	Unlocked bool // whatever deployster.lock says, for what writes it

	Changes    bool             // the command changes things
	Unfinished *runs.Unfinished // the dead run whose engine auto prefers; may be nil
}

// Register adds the flags.
func (f *Flags) Register(c *cobra.Command) {
	c.Flags().StringVar(&f.Pull, "pull", string(engine.PullMissing), "when to pull images: missing, always or never")
	c.Flags().StringVar(&f.Network, "network", "", "network of every container (default: the engine's)")
	c.Flags().StringVar(&f.typesImage, "types-image", "", "image that holds the deployster binary for the engine's platform, for the types that ship with it; with --engine kubernetes a repository to which this binary is pushed")
	c.Flags().Var(&f.Memory, "memory", "memory of every container, such as 512MiB (default: the engine's)")
	c.Flags().Int64Var(&f.Pids, "pids", 0, "how many processes and threads every container may have (default: the engine's)")
	f.MaxWork, f.MaxWorkAll = invoke.DefaultMaxWork, gc.DefaultMaxWork
	c.Flags().Var(&f.MaxWork, "max-work", "size of the files that one run may leave in .deployster/work")
	c.Flags().Var(&f.MaxWorkAll, "max-work-all", "size of those of all runs, above which the oldest are removed")
	f.RegisterLostFor(c)
	_ = c.RegisterFlagCompletionFunc("pull", cobra.FixedCompletions([]string{"missing", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("network", cobra.FixedCompletions([]string{"none", "host"}, cobra.ShellCompDirectiveNoFileComp))
}

// RegisterLostFor adds --lost-for, which Register has, too.
func (f *Flags) RegisterLostFor(c *cobra.Command) {
	c.Flags().DurationVar(&f.LostFor, "lost-for", docker.DefaultLostFor, "time until the action of an unreachable engine is lost")
}

// RegisterCache adds the flag of commands that ask types what they are.
func (f *Flags) RegisterCache(c *cobra.Command) {
	c.Flags().BoolVar(&f.noCache, "no-cache", false, "ask every resource type what it is, and remember nothing of that")
}

// RegisterAbandon adds --abandon, for commands that may be held.
func (f *Flags) RegisterAbandon(c *cobra.Command) {
	f.Changes = true
	c.Flags().StringArrayVar(&f.Abandon, "abandon", nil, "do not wait for this dead run, whose engine cannot be asked any more (repeatable)")
}

// LockFile is what the names of images mean in a workspace; nil where nothing says that, which
// fails if something must.
func LockFile(a *app.App, must bool) (*lockfile.File, error) {
	lock, err := lockfile.Read(a.Workspace)
	switch {
	case err != nil:
		return nil, exit.Invalid(err)
	case lock == nil && must:
		return nil, exit.Usage("--locked: there is no %s in workspace %s: write it with \"deployster lock MANIFEST\"", lockfile.Name, a.Workspace)
	}
	return lock, nil
}

// leastMemory is what a Docker Engine gives a container at least.
const leastMemory = 6 << 20

// Policy checks the flags and returns when images are pulled.
func (f *Flags) Policy() (engine.PullPolicy, error) {
	if f.Memory != 0 && f.Memory < leastMemory {
		return "", exit.Usage("--memory %s: a container needs at least %s", phrase.Size(int64(f.Memory)), phrase.Size(leastMemory))
	}
	if f.Pids < 0 {
		return "", exit.Usage("--pids %d: it must be at least 1, or 0 for the engine's default", f.Pids)
	}
	if f.LostFor < 0 || f.LostFor > 0 && f.LostFor < time.Second {
		return "", exit.Usage("--lost-for %s: it must be at least 1s, such as 10m, or 0 for the default", f.LostFor)
	}
	switch p := engine.PullPolicy(f.Pull); p {
	case engine.PullMissing, engine.PullAlways, engine.PullNever:
		return p, nil
	default:
		return "", exit.Usage("--pull %s: it must be missing, always or never", f.Pull)
	}
}

// Size is a flag with a number of bytes, written with or without a unit.
type Size int64

var sizeUnits = map[string]float64{
	"": 1, "b": 1,
	"k": 1 << 10, "ki": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mi": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gi": 1 << 30, "gib": 1 << 30, "gb": 1e9,
}

// String implements pflag.Value.
func (s *Size) String() string {
	if *s == 0 {
		return ""
	}
	return phrase.Size(int64(*s))
}

// Type implements pflag.Value.
func (s *Size) Type() string { return "size" }

// Set implements pflag.Value.
func (s *Size) Set(text string) error {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit, known := sizeUnits[strings.ToLower(strings.TrimSpace(text[len(digits):]))]
	n, err := strconv.ParseFloat(digits, 64)
	bytes := n * unit
	if err != nil || !known || !(bytes >= 1) || bytes > math.MaxInt64/2 {
		return fmt.Errorf("%q is not a size such as 512MiB or 2GiB", text)
	}
	*s = Size(bytes)
	return nil
}
