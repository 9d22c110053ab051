package pipeline

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/pipeline"
)

func newAcceptCommand(a *app.App) *cobra.Command {
	var content string
	c := proposing(a, &cobra.Command{
		Use:   "accept PIPELINE REVISION --content HASH",
		Short: "Release a revision that was asked for",
		Long: `Release a revision that somebody asked for who may not release it (pipeline release
--pending). "pipeline explain" shows what it brings beyond the definition, and its
content. What you accept is exactly that content: it cannot be changed in between.

Through a server, you must be operator of everything, and somebody else than who asked.`,
		Example: "  deployster pipeline explain gateway\n  deployster pipeline accept gateway 43 --content sha256:…",
		Args:    arguments.Named("a pipeline", "a revision"),
	}, func(args []string) (pipeline.Command, string) {
		return pipeline.Accept{Revision: args[1], Content: content, ID: a.NewID(), By: app.Whoami()},
			fmt.Sprintf("revision %s of pipeline %s is accepted and released", args[1], args[0])
	})
	c.Flags().StringVar(&content, "content", "", "the content that you looked at")
	return c
}

func newDeclineCommand(a *app.App) *cobra.Command {
	var reason string
	c := proposing(a, &cobra.Command{
		Use:   "decline PIPELINE REVISION",
		Short: "Decline a revision that was asked for",
		Long: `Decline a revision that somebody asked for (pipeline release --pending), or take back
that you asked for it. It can be asked for again.`,
		Example: "  deployster pipeline decline gateway 43 --reason 'wants the whole disk'",
		Args:    arguments.Named("a pipeline", "a revision"),
	}, func(args []string) (pipeline.Command, string) {
		return pipeline.Decline{Revision: args[1], By: app.Whoami(), Reason: reason},
			fmt.Sprintf("revision %s of pipeline %s is declined", args[1], args[0])
	})
	arguments.RegisterReason(c, &reason)
	return c
}
