package pipeline

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/approval"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/query"
	machine "github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/record"
)

// approvals are the pipelines of both kinds, at whose stages is approved.
func approvals(a *app.App, p *query.Pipelines) approval.Pipelines { return approval.Of(p.Log, a.Now) }

// newKey is what the commands that add keys are told.
type newKey struct {
	file      string
	created   bool // file did not exist before
	owner     string
	stages    []string
	notBefore string
	expires   time.Duration
}

func newKeyCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "key",
		Short: "Manage the keys that may sign approvals of a pipeline",
		Long: `Manage the keys that may sign approvals of a pipeline. The deployment log has the
public half of each, and nothing else has any of it: the private half stays with whoever
signs.`,
		Example: "  deployster pipeline key create gateway ci-2030 --stage approve-prod --out ci.pem\n  deployster pipeline key list gateway",
	}
	c.AddCommand(newKeyCreateCommand(a), newKeyAddCommand(a), newKeyListCommand(a), newKeyRevokeCommand(a))
	return c
}

func newKeyCreateCommand(a *app.App) *cobra.Command {
	var o newKey
	c := &cobra.Command{
		Use:   "create PIPELINE ID",
		Short: "Create a key, and let it sign approvals of a pipeline",
		Long: `Create a key of Ed25519, write its private half to a file that only you may read,
and record its public half.`,
		Example: "  deployster pipeline key create gateway ci-2030 --stage approve-prod --out ci.pem",
		Args:    arguments.Named("a pipeline", "an id of the key"),
		RunE: func(c *cobra.Command, args []string) error {
			if o.file == "" {
				return exit.Usage("where to? --out FILE takes the private half of the key")
			}
			return withPipelines(c.Context(), a, nil, 0, func(p *query.Pipelines) error {
				if _, err := approvals(a, p).Keys(c.Context(), args[0]); err != nil { // before there is a file
					return err
				}
				public, err := approval.CreateKey(o.file)
				if err != nil {
					return err
				}
				o.created = true
				return addKey(c.Context(), a, p, args[0], args[1], public, o)
			})
		},
	}
	c.Flags().StringVar(&o.file, "out", "", "file to write the private key to, which must not exist")
	o.register(c)
	return c
}

func newKeyAddCommand(a *app.App) *cobra.Command {
	var o newKey
	c := &cobra.Command{
		Use:   "add PIPELINE ID",
		Short: "Let a key sign approvals of a pipeline",
		Long: `Let a key sign approvals of a pipeline, whose private half somebody else has. The
file holds its public half, of Ed25519, in PEM.

A key is replaced while both are valid: add the next one with the same --owner, who
counts once, and revoke the old one when nobody uses it any more.`,
		Example: "  openssl genpkey -algorithm ed25519 -out ci.pem && openssl pkey -in ci.pem -pubout -out ci.pub\n  deployster pipeline key add gateway ci-2031 --public ci.pub --owner ci",
		Args:    arguments.Named("a pipeline", "an id of the key"),
		RunE: func(c *cobra.Command, args []string) error {
			if o.file == "" {
				return exit.Usage("which key? --public FILE is its public half")
			}
			public, err := approval.ReadPublic(o.file)
			if err != nil {
				return err
			}
			return withPipelines(c.Context(), a, nil, 0, func(p *query.Pipelines) error {
				return addKey(c.Context(), a, p, args[0], args[1], public, o)
			})
		},
	}
	c.Flags().StringVar(&o.file, "public", "", "file with the public key, in PEM")
	o.register(c)
	return c
}

func (o *newKey) register(c *cobra.Command) {
	c.Flags().StringArrayVar(&o.stages, "stage", nil, "approval stage at which the key may approve (repeatable; default: all)")
	c.Flags().StringVar(&o.owner, "owner", "", "identity that the key approves as, which may have several keys (default: the id of the key)")
	c.Flags().StringVar(&o.notBefore, "not-before", "", "time from which the key is valid, such as 2030-01-31T08:00:00Z (default: now)")
	c.Flags().DurationVar(&o.expires, "expires", 365*24*time.Hour, "how long the key is valid; 0 is without end")
}

func addKey(ctx context.Context, a *app.App, p *query.Pipelines, name, id string, public ed25519.PublicKey, o newKey) error {
	key := machine.AddKey{Key: id, Owner: o.owner, Public: base64.StdEncoding.EncodeToString(public), Stages: o.stages, NotBefore: a.Now().UTC().Truncate(time.Second), ID: a.NewID(), By: app.Whoami()}
	if o.notBefore != "" {
		at, err := time.Parse(time.RFC3339, o.notBefore)
		if err != nil {
			return exit.Usage("--not-before %q is no time such as 2030-01-31T08:00:00Z", o.notBefore)
		}
		key.NotBefore = at.UTC()
	}
	if o.expires < 0 {
		return exit.Usage("--expires %s is past", o.expires)
	}
	if o.expires > 0 {
		key.Expires = key.NotBefore.Add(o.expires)
	}
	events, err := approvals(a, p).AddKey(ctx, name, key)
	if err != nil && o.created {
		_ = os.Remove(o.file) // nobody knows the key
	}
	if err != nil {
		return err
	}
	added := record.Read(events[0].Data).Key
	return a.Recorded(map[string]any{"key": added}, events, fmt.Sprintf("key %s may sign approvals of pipeline %s at %s%s", id, name, stagesText(added.Stages), untilText(added.Expires)), "")
}

func stagesText(stages []string) string {
	if len(stages) == 0 {
		return "all stages"
	}
	return "stage " + strings.Join(stages, ", ")
}

func untilText(expires time.Time) string {
	if expires.IsZero() {
		return ""
	}
	return ", until " + expires.Local().Format(time.DateTime)
}

func newKeyListCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "list PIPELINE",
		Short:   "List the keys that may sign approvals of a pipeline, and those that might once",
		Example: "  deployster pipeline key list gateway",
		Args:    arguments.Named("a pipeline"),
		RunE: func(c *cobra.Command, args []string) error {
			return withPipelines(c.Context(), a, nil, 0, func(p *query.Pipelines) error { return listKeys(c.Context(), a, p, args[0]) })
		},
	}
}

func listKeys(ctx context.Context, a *app.App, p *query.Pipelines, name string) error {
	keys, err := approvals(a, p).Keys(ctx, name)
	if err != nil {
		return err
	}
	type line struct {
		machine.Key
		Identity string `json:"identity"`
		Status   string `json:"status"`
	}
	lines := []line{}
	rows := [][]string{{"KEY", "APPROVES AS", "STATUS", "STAGES", "EXPIRES", "ADDED BY"}}
	for _, k := range keys.All() {
		expires := "–"
		if !k.Expires.IsZero() {
			expires = k.Expires.Local().Format(time.DateTime)
		}
		lines = append(lines, line{k, k.Identity(), k.Status(a.Now())})
		rows = append(rows, []string{k.ID, k.Identity(), k.Status(a.Now()), strings.TrimPrefix(stagesText(k.Stages), "stage "), expires, k.AddedBy})
	}
	return a.List(map[string]any{"keys": lines}, "no keys: nobody can sign approvals", rows)
}

func newKeyRevokeCommand(a *app.App) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "revoke PIPELINE ID",
		Short: "Revoke a key: it signs no approval any more, from now on",
		Long: `Revoke a key: nothing that it signs is accepted from now on. Approvals that it gave
stay as they are: reject the revision where they should not count.`,
		Example: "  deployster pipeline key revoke gateway ci-2029 --reason 'replaced by ci-2030'",
		Args:    arguments.Named("a pipeline", "an id of the key"),
		RunE: func(c *cobra.Command, args []string) error {
			return withPipelines(c.Context(), a, nil, 0, func(p *query.Pipelines) error {
				events, err := approvals(a, p).RevokeKey(c.Context(), args[0], machine.RevokeKey{Key: args[1], Reason: reason, ID: a.NewID(), By: app.Whoami()})
				if err != nil {
					return err
				}
				return a.Recorded(map[string]any{}, events, fmt.Sprintf("key %s of pipeline %s is revoked", args[1], args[0]), "")
			})
		},
	}
	arguments.RegisterReason(c, &reason)
	return c
}
