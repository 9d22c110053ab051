package prompt

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/runner"
)

// ConfirmFlags say how often somebody is asked.
type ConfirmFlags struct {
	text  string
	yes   bool
	given bool // --confirm was
}

// Register adds the flags.
func (f *ConfirmFlags) Register(c *cobra.Command) {
	c.Flags().VarP(f, "confirm", "c", "when to ask: NO, ONCE, RESOURCE or ACTION")
	c.Flags().BoolVar(&f.yes, "yes", false, "ask no questions: --confirm NO")
	f.text = string(runner.ConfirmAction)
	c.Flag("confirm").DefValue = f.text
	_ = c.RegisterFlagCompletionFunc("confirm", cobra.FixedCompletions([]string{"NO", "ONCE", "RESOURCE", "ACTION"}, cobra.ShellCompDirectiveNoFileComp))
}

// String implements pflag.Value.
func (f *ConfirmFlags) String() string { return f.text }

// Type implements pflag.Value.
func (f *ConfirmFlags) Type() string { return "string" }

// Set implements pflag.Value.
func (f *ConfirmFlags) Set(text string) error {
	f.text, f.given = text, true
	return nil
}

// Parse reads the flags, of which --yes is another word for --confirm NO.
func (f *ConfirmFlags) Parse() (runner.ConfirmMode, error) {
	switch mode := runner.ConfirmMode(strings.ToUpper(f.text)); mode {
	case runner.ConfirmNo, runner.ConfirmOnce, runner.ConfirmResource, runner.ConfirmAction:
		if f.yes && f.given && mode != runner.ConfirmNo {
			return "", exit.Usage("--yes asks no questions and --confirm %s asks some: say one of them", mode)
		}
		if f.yes {
			return runner.ConfirmNo, nil
		}
		return mode, nil
	default:
		return "", exit.Usage("--confirm %s: it must be NO, ONCE, RESOURCE or ACTION", f.text)
	}
}

// ConfirmMode is how often somebody is asked, where there is anybody.
func ConfirmMode(a *app.App, f ConfirmFlags) (runner.ConfirmMode, error) {
	mode, err := f.Parse()
	if err != nil || mode == runner.ConfirmNo {
		return mode, err
	}
	if a.JSON() {
		return "", exit.Usage("--output json asks no questions: say --yes (or --confirm NO) to go on without them")
	}
	if !CanAsk(a) {
		return "", exit.Usage("there is no terminal to ask for confirmation (--confirm %s): say --yes (or --confirm NO) to go on without questions", mode)
	}
	return mode, nil
}
