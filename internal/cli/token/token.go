// Package token is the commands of the tokens that authenticate at a server.
package token

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/phrase"
)

// NewCommand returns the commands of tokens.
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Manage the tokens that authenticate at a server",
		Long: `Manage the tokens that authenticate at a server.

They are in the log, of which only hashes of them can be read, so each server of the log
knows them, from when they are created until they expire or are revoked.`,
		Example: `  deployster token create ci --role operator --pipeline gateway --expires 90d
  deployster token list
  deployster token revoke ci`,
	}
	c.AddCommand(newCreateCommand(a), newListCommand(a), newRevokeCommand(a))
	return c
}

type createOptions struct {
	name, role, expires string
	pipelines           []string
	environments        []string
}

func newCreateCommand(a *app.App) *cobra.Command {
	var o createOptions
	c := &cobra.Command{
		Use:   "create NAME --role ROLE",
		Short: "Create a token, and print it",
		Long: `Create a token, and print it. It is shown this once: the log has only a hash of it.

A viewer reads everything. An operator also records what is to be done, an approver also
approves and rejects, and an admin may do all. With --pipeline and --environment the role
is for these alone: a viewer reads these and nothing else. An operator, approver or admin
of some reads everything all the same.

What is done with the token is recorded as done by "token NAME". Commands with --server
read it from DEPLOYSTER_TOKEN, or from the file that DEPLOYSTER_TOKEN_FILE names.`,
		Example: "  deployster token create ci --role operator --pipeline gateway\n  deployster token create dashboard --role viewer --expires never > dashboard.token\n  deployster token create team --role viewer --pipeline gateway --environment shop/prod > team.token",
		Args:    arguments.Named("a token"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = args[0]
			return runCreate(c.Context(), a, o)
		},
	}
	c.Flags().StringVar(&o.role, "role", "", "what who has it may do: viewer, operator, approver or admin")
	c.Flags().StringArrayVar(&o.pipelines, "pipeline", nil, "only this pipeline (repeatable)")
	c.Flags().StringArrayVar(&o.environments, "environment", nil, "only this environment (repeatable)")
	c.Flags().StringVar(&o.expires, "expires", "90d", "when it ends, such as 90d or 12h; never is until it is revoked")
	return c
}

func runCreate(ctx context.Context, a *app.App, o createOptions) error {
	if o.role == "" {
		return exit.Usage("which role? say --role viewer, operator, approver or admin")
	}
	role, err := identity.ParseRole(o.role)
	if err != nil {
		return exit.Usage("--role: %w", err)
	}
	after, err := parseExpires(o.expires)
	if err != nil {
		return err
	}
	if slices.Contains(o.pipelines, "") || slices.Contains(o.environments, "") {
		return exit.Usage("--pipeline and --environment must not be empty: without them it is for everything")
	}
	n := identity.New{Name: o.name, ID: a.NewID(), Grant: identity.Grant{Role: role, Pipelines: o.pipelines, Environments: o.environments}, By: app.Whoami()}
	if after > 0 {
		n.Expires = a.Now().Add(after).UTC().Truncate(time.Second)
	}
	return a.WithNewLog(ctx, func(log deploylog.Log) error {
		secret, events, err := identity.NewTokens(log, a.Now).Create(ctx, n)
		if err != nil {
			return refused(err)
		}
		document := map[string]any{"token": o.name, "secret": secret, "events": events}
		return a.Show(document, func() error {
			a.Notice(fmt.Sprintf("note: this is token %s, with the role %s for %s, %s; it is not shown again (event %d)", o.name, role, phrase.Plain(n.Names()), ends(n.Expires), events[0].Seq))
			return a.Printf("%s\n", secret)
		})
	})
}

// refused is an error of tokens as one of whoever named them.
func refused(err error) error {
	if errors.Is(err, identity.ErrToken) {
		return exit.Invalid(err)
	}
	return err
}

// maxExpires is how far away the end of a token may be.
const maxExpires = 10 * 366 * 24 * time.Hour

// parseExpires reads how long a token is to be valid; 0 is forever.
func parseExpires(text string) (after time.Duration, err error) {
	if text == "never" {
		return 0, nil
	}
	if days, is := strings.CutSuffix(text, "d"); is {
		n, err := strconv.Atoi(days)
		if err == nil && n > 0 && n <= int(maxExpires/(24*time.Hour)) {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if after, err = time.ParseDuration(text); err == nil && after > 0 && after <= maxExpires {
		return after, nil
	}
	return 0, exit.Usage("--expires %q: it is a time such as 90d or 12h, of ten years at most, or never", text)
}

func ends(at time.Time) string {
	if at.IsZero() {
		return "until it is revoked"
	}
	return "until " + phrase.Moment(at)
}

func newListCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List tokens, also those that have expired or were revoked",
		Example: "  deployster token list\n  deployster token list --output json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.WithLog(c.Context(), func(log deploylog.Log, _ string) error {
				tokens, err := identity.NewTokens(log, a.Now).List(c.Context())
				if err != nil {
					return err
				}
				type listed struct {
					identity.Token
					Status string `json:"status"`
				}
				all, rows := []listed{}, [][]string{{"TOKEN", "STATUS", "ROLE", "OF", "CREATED BY", "EXPIRES"}}
				for _, t := range tokens {
					all = append(all, listed{t, t.Status(a.Now())})
					expires := "never"
					if !t.Expires.IsZero() {
						expires = phrase.Moment(t.Expires)
					}
					rows = append(rows, []string{
						phrase.Plain(t.Name), t.Status(a.Now()), phrase.Plain(string(t.Role)), phrase.Plain(t.Names()), output.Dash(phrase.Plain(t.By)), expires,
					})
				}
				return a.List(map[string]any{"tokens": all}, "no tokens: deployster token create makes one", rows)
			})
		},
	}
}

func newRevokeCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "revoke NAME",
		Short:   "Revoke a token: nobody is authenticated by it any more, from now on",
		Example: "  deployster token revoke ci",
		Args:    arguments.Named("a token"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.WithLog(c.Context(), func(log deploylog.Log, _ string) error {
				events, err := identity.NewTokens(log, a.Now).Revoke(c.Context(), args[0], identity.Revoke{By: app.Whoami()})
				if err != nil {
					return refused(err)
				}
				return a.Recorded(map[string]any{"token": args[0]}, events, fmt.Sprintf("token %s is revoked", args[0]), "")
			})
		},
	}
}
