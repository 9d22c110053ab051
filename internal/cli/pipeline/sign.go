package pipeline

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/approval"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
)

// signing is an approval that is to be signed.
type signing struct {
	pipeline, stage, revision string
	reason, carries           string
	key, keyID                string // file of the key, and its id; "" is found in the log
	to                        string // address of the server
}

func newSignCommand(a *app.App) *cobra.Command {
	var o signing
	c := &cobra.Command{
		Use:   "sign PIPELINE STAGE REVISION",
		Short: "Sign an approval, to be sent to a server",
		Long: `Sign an approval of a revision, and print the command that sends it to a server: an
HTTP request with a signature of RFC 9421 over its method, its address and the digest of
its content. It is valid for five minutes, and serves once.

The log says what the revision carries and which id the key has. Where there is no log,
as in CI, --carries and --key-id say so; the stage is then named in full.`,
		Example: `  deployster pipeline sign gateway approve-prod 42 --key ci.pem --to https://deploy.example
  deployster pipeline sign gateway approve-prod 42 --key ci.pem --key-id ci-2030 --carries sha256:… --to https://deploy.example | sh`,
		Args: arguments.Named("a pipeline", "a stage", "a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			o.pipeline, o.stage, o.revision = args[0], args[1], args[2]
			return runSign(c.Context(), a, o)
		},
	}
	c.Flags().StringVar(&o.key, "key", "", "file of the private key")
	c.Flags().StringVar(&o.keyID, "key-id", "", "id of the key (default: what the log says)")
	c.Flags().StringVar(&o.carries, "carries", "", "hash of what is approved, as pipeline explain shows it (default: what the log says)")
	c.Flags().StringVar(&o.to, "to", "", "address of the server, such as https://deploy.example (default: that of --server)")
	arguments.RegisterReason(c, &o.reason)
	return c
}

func runSign(ctx context.Context, a *app.App, o signing) error {
	if server := a.Server(); o.to == "" && strings.HasPrefix(server, "http") {
		o.to = server
	}
	base, err := url.Parse(o.to)
	switch {
	case o.key == "":
		return exit.Usage("with which key? --key FILE is its private half")
	case o.to == "":
		return exit.Usage("for which server? --to is the address at which clients reach it, such as https://deploy.example")
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || strings.Trim(base.Path, "/") != "" || base.RawQuery != "" || base.User != nil:
		return exit.Usage("--to %q is not the address of a server, such as https://deploy.example", o.to)
	}
	private, err := approval.ReadPrivate(o.key)
	if err != nil {
		return err
	}
	if o.keyID == "" || o.carries == "" {
		err = withPipelines(ctx, a, nil, 0, func(p *query.Pipelines) error { return o.complete(ctx, approvals(a, p), private, a.Now()) })
		if err != nil {
			return err
		}
	}
	r, err := o.sign(private, base, a.Now())
	if err != nil {
		return err
	}
	document := map[string]any{"method": r.Method, "url": r.URL.String(), "headers": r.Header, "body": string(r.Body)}
	return a.Show(document, func() error {
		command := "curl --fail-with-body -X POST " + quote(r.URL.String())
		for _, name := range []string{"Content-Type", "Content-Digest", "Signature-Input", "Signature"} {
			command += " \\\n  -H " + quote(name+": "+r.Header.Get(name))
		}
		return a.Printf("%s \\\n  --data-binary %s\n", command, quote(string(r.Body)))
	})
}

// quote writes a text for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// complete looks up what is not said.
func (o *signing) complete(ctx context.Context, p approval.Pipelines, private ed25519.PrivateKey, now time.Time) error {
	public := base64.StdEncoding.EncodeToString(private.Public().(ed25519.PublicKey))
	keys, err := p.Keys(ctx, o.pipeline)
	if err != nil {
		return err
	}
	for _, k := range keys.All() {
		if k.Public == public && o.keyID == "" {
			o.keyID = k.ID
		}
	}
	if o.keyID == "" {
		return fmt.Errorf("the key of %s is not one of pipeline %s: deployster pipeline key add records it", o.key, o.pipeline)
	}
	stage, carries, err := p.Awaited(ctx, o.pipeline, o.stage, o.revision, now)
	if err != nil {
		return err
	}
	o.stage, o.carries = stage, cmp.Or(o.carries, carries)
	return nil
}

// sign makes the request.
func (o *signing) sign(private ed25519.PrivateKey, base *url.URL, now time.Time) (approval.Request, error) {
	target, err := base.Parse(approval.Path(o.pipeline, o.stage))
	if err != nil {
		return approval.Request{}, fmt.Errorf("the address of stage %s of pipeline %s: %w", o.stage, o.pipeline, err)
	}
	body, err := json.Marshal(approval.Body{Pipeline: o.pipeline, Stage: o.stage, Revision: o.revision, Carries: o.carries, Reason: o.reason})
	if err == nil {
		_, err = approval.DecodeBody(body)
	}
	if err != nil {
		return approval.Request{}, exit.Usage("this cannot be approved: %v", err)
	}
	r := approval.Request{Method: http.MethodPost, URL: target, Body: body}
	r.Header, err = approval.Sign(r, private, o.keyID, rand.Text(), now, approval.MaxAge)
	return r, err
}

// runApproveSigned signs an approval, and sends it to the server; without one it takes it, as a
// server does that has this log.
func runApproveSigned(ctx context.Context, a *app.App, o signing) error {
	private, err := approval.ReadPrivate(o.key)
	if err != nil {
		return err
	}
	remote, err := a.Remote()
	if err != nil {
		return err
	}
	return withPipelines(ctx, a, nil, 0, func(p *query.Pipelines) error {
		all := approvals(a, p)
		if err := o.complete(ctx, all, private, a.Now()); err != nil {
			return err
		}
		base := &url.URL{Scheme: "http", Host: "localhost"}
		if remote != nil {
			base = remote.Base()
		}
		r, err := o.sign(private, base, a.Now())
		if err != nil {
			return err
		}
		var answer approval.Answer
		if remote == nil {
			answer, err = approval.New(all, a.Now).Approve(ctx, o.pipeline, o.stage, r)
		} else {
			answer, err = sendSigned(ctx, remote, p.Log, r)
		}
		if err != nil {
			return err
		}
		done := fmt.Sprintf("revision %s of pipeline %s is approved at stage %s", o.revision, o.pipeline, o.stage)
		if answer.Missing != nil {
			done = fmt.Sprintf("revision %s of pipeline %s waits at stage %s: %s", o.revision, o.pipeline, o.stage, view.Clean(answer.Missing.Text()))
		}
		return a.Recorded(map[string]any{}, []deploylog.Event{answer.Recorded}, done, "")
	})
}

// sendSigned sends an approval to the server of a log.
func sendSigned(ctx context.Context, remote *client.Client, log deploylog.Log, r approval.Request) (answer approval.Answer, err error) {
	if err := remote.SendSigned(ctx, r.URL.EscapedPath(), r.Header, r.Body, &answer); err != nil {
		return answer, err
	}
	for e, err := range log.Read(ctx, deploylog.Filter{After: answer.Event - 1, Until: answer.Event}) {
		if err != nil {
			return answer, fmt.Errorf("reading the approval, event %d: %w", answer.Event, err)
		}
		answer.Recorded = e
	}
	return answer, nil
}
