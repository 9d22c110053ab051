// Package serve is the command that serves a team: one process that controls all pipelines,
// environments and build groups of a log, and answers requests about them.
//
// It keeps nothing but the log and what lies beside it. Whoever kills it and starts another
// loses nothing. Several on the same log stand by for each other, or share what there is.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	builds "github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/control/apply"
	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/build"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/listen"
	"github.com/deployster-go/deployster/internal/metrics"
	"github.com/deployster-go/deployster/internal/notification"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/runner"
)

// defaultListen is where it listens when nobody says where.
const defaultListen = "127.0.0.1:7450"

type options struct {
	listen        []string
	sockets       []string
	name          string // what other servers know it as
	tls           listen.Files
	insecure      bool
	publicURL     string
	notifications string
	oidc          string // file that names issuers of tokens
	signKey       string
	checkEvery    time.Duration
	stopTimeout   time.Duration
	socketRoles   []string // USER=ROLE
	clientRoles   []string // NAME=ROLE, of client certificates
	public        *url.URL // nil is what requests name
	authenticate  identity.Authenticator
	work          session.WorkerFlags
}

// NewCommand is "serve".
func NewCommand(a *app.App) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve a team: control everything in the log, and answer requests",
		Long: `Serve a team: one process that carries revisions through all pipelines, keeps all
environments in their desired state, has the jobs of all build groups done, and answers
requests: those of its API below /v1/, and those of browsers, to which it shows pages. It
does what "pipeline run", "env run" and "build run" do, and keeps nothing but the log and
what lies beside it: kill it and start another, and nothing is lost.

A second one on the same log stands by. It takes over at once when the first has ended,
however it ended. Where the log is in a database they share pipelines and environments.

It listens on 127.0.0.1:7450 unless --listen, --socket or systemd says where else. Addresses
that other machines can reach need --tls-cert and --tls-key, whose files may change while
it runs.

Interrupt once to let running actions finish and begin nothing new, for as long as
--stop-timeout allows; twice to kill them.`,
		Example: `  deployster serve
  deployster serve --socket /run/deployster/socket --listen 127.0.0.1:7450
  deployster serve --listen 0.0.0.0:7450 --tls-cert server.crt --tls-key server.key
  deployster serve --listen 127.0.0.1:7450 --oidc oidc.yaml
  deployster serve --output json                 # the log of the server as lines of JSON`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return run(c.Context(), a, o)
		},
	}
	flags := c.Flags()
	flags.StringArrayVar(&o.listen, "listen", nil, "address to listen on (repeatable; default "+defaultListen+" where there is no --socket, and systemd passes none)")
	flags.StringArrayVar(&o.sockets, "socket", nil, "Unix socket to listen on, for the users of this machine (repeatable)")
	flags.StringVar(&o.name, "name", "", "what other servers on the same log know it as, also after a restart (default the name of this machine and where it listens)")
	flags.StringVar(&o.tls.Certificate, "tls-cert", "", "certificate for the addresses, in PEM, with those that lead to its authority")
	flags.StringVar(&o.tls.Key, "tls-key", "", "key of the certificate, in PEM")
	flags.StringVar(&o.tls.ClientCA, "client-ca", "", "authorities of the certificates that clients may show, in PEM")
	flags.StringArrayVar(&o.socketRoles, "socket-role", nil, "USER=ROLE: what a user of this machine may do on a --socket: viewer (default), operator, approver or admin; none: of all others a token is needed, also of root (repeatable)")
	flags.StringArrayVar(&o.clientRoles, "client-role", nil, "NAME=ROLE: what who shows a certificate with that common name may do (repeatable)")
	flags.BoolVar(&o.insecure, "insecure", false, "listen in plain text although other machines can reach the address")
	flags.StringVar(&o.publicURL, "public-url", "", "address that clients use, where a proxy stands between: signed approvals are made for it")
	flags.StringVar(&o.notifications, "notifications", "", "file that says what is told of the log to whom")
	flags.StringVar(&o.oidc, "oidc", "", "file that says whose tokens are accepted, of identity providers and CI systems, and what those may do")
	flags.StringVar(&o.signKey, "sign-key", "", "private key that signs how artifacts were made, where they are pushed: a file, Ed25519 or ECDSA P-256 in PEM")
	flags.DurationVar(&o.checkEvery, "check-every", environments.DefaultProbeEvery, "how often to probe every task, in addition to the events of engines")
	flags.DurationVar(&o.stopTimeout, "stop-timeout", 10*time.Minute, "how long running actions may take to finish after the first signal; 0 is any time")
	o.work.RegisterServed(c)
	o.work.Engine.RegisterAbandon(c)
	return c
}

// check refuses flags that do not go together.
func (o *options) check() error {
	switch {
	case o.checkEvery < time.Second:
		return exit.Usage("--check-every %s: it must be at least 1s", o.checkEvery)
	case o.stopTimeout < 0:
		return exit.Usage("--stop-timeout %s: it must not be negative", o.stopTimeout)
	case (o.tls.Certificate == "") != (o.tls.Key == ""):
		return exit.Usage("--tls-cert and --tls-key go together: the one is of no use without the other")
	case len(o.clientRoles) > 0 && o.tls.ClientCA == "":
		return exit.Usage("--client-role: nobody shows a certificate without --client-ca")
	case o.tls.ClientCA != "" && o.tls.Certificate == "":
		return exit.Usage("--client-ca: clients show certificates only where the server has one: use --tls-cert and --tls-key, too")
	}
	if slices.Contains(o.listen, "") || slices.Contains(o.sockets, "") {
		return exit.Usage("--listen and --socket must not be empty")
	}
	if len(o.listen)+len(o.sockets) == 0 && !activated() {
		o.listen = []string{defaultListen}
	}
	if o.tls.Certificate != "" && len(o.listen) == 0 && !activated() {
		return exit.Usage("--tls-cert is for addresses, and a Unix socket has none: add --listen ADDRESS, or leave the certificate out")
	}
	return errors.Join(o.readName(os.Hostname), o.readPublicURL(), o.roles(), o.work.CheckTaskVariables())
}

// readPublicURL reads the address by which clients know the server, if one is given.
func (o *options) readPublicURL() (err error) {
	if o.publicURL == "" {
		return nil
	}
	if o.public, err = url.Parse(o.publicURL); err != nil || o.public.Host == "" || o.public.Scheme != "https" && o.public.Scheme != "http" || strings.Trim(o.public.Path, "/") != "" {
		return exit.Usage("--public-url %s: it must be an address without a path, such as https://deployster.example", o.publicURL)
	}
	return nil
}

// roles reads what users of the machine and clients with certificates may do.
func (o *options) roles() error {
	host, _ := os.Hostname() // without one, users go by their names alone
	o.authenticate.Locals = identity.Locals{Own: os.Getuid(), Host: host, Roles: map[string]identity.Role{}}
	o.authenticate.Subjects = map[string]identity.Grant{}
	for _, text := range o.socketRoles {
		if text == identity.NoRole {
			o.authenticate.Locals.None = true
			continue
		}
		name, role, err := identity.ParseLocal(text)
		if err != nil {
			return exit.Usage("--socket-role %w", err)
		}
		if _, twice := o.authenticate.Locals.Roles[name]; twice {
			return exit.Usage("--socket-role names %s twice: a user has one role", name)
		}
		o.authenticate.Locals.Roles[name] = role
	}
	for _, text := range o.clientRoles {
		name, role, err := identity.ParseLocal(text)
		if err != nil {
			return exit.Usage("--client-role %w", err)
		}
		if _, twice := o.authenticate.Subjects[name]; twice {
			return exit.Usage("--client-role names %s twice: a certificate has one role", name)
		}
		o.authenticate.Subjects[name] = identity.Grant{Role: role}
	}
	return nil
}

// warnOfProxies says that a proxy on a socket lends the role of its account to all who reach it.
func (o *options) warnOfProxies(logger *slog.Logger) {
	if o.authenticate.Locals.None {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(o.authenticate.Locals.Roles)) {
		if role := o.authenticate.Locals.Roles[name]; role != identity.Viewer {
			logger.Warn("every program of the user has the role on the sockets; if one is a proxy, so has everybody who reaches it: --socket-role none has tokens alone decide", "user", name, "role", role)
		}
	}
}

func run(ctx context.Context, a *app.App, o options) error {
	if err := errors.Join(a.Local(), a.CheckParallelism()); err != nil { // it would ask itself
		return err
	}
	logger := newLogger(a)
	rules, err := readRules(o.notifications)
	if err != nil {
		return exit.Invalid(err)
	}
	if o.authenticate.Issued, err = issued(o.oidc, a.Now, logger); err != nil {
		return exit.Invalid(err)
	}
	o.warnOfProxies(logger)
	listeners, err := o.open(ctx, logger)
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // which the server did, unless something failed before
		}
	}()
	return a.WithNewLog(ctx, func(log deploylog.Log) error {
		if err := engines.Abandon(ctx, log, o.work.Engine.Abandon); err != nil {
			return err
		}
		ctx, signals := interrupt.Handle(ctx, func(text string) { logger.Info(text) })
		defer signals.Done()
		notices := output.Notices(func(text string) { logger.Warn(text) })
		workers, err := session.OpenWorkers(ctx, a, log, o.work, notices)
		if err != nil {
			return err
		}
		if _, err := workers.Hosts.Inventory(); err != nil { // until it can be read, what selects hosts waits
			logger.Warn("the inventory cannot be read", "error", err)
		}
		texts, err := a.Texts()
		if err != nil {
			return err
		}
		o.authenticate.Tokens = identity.NewTokens(log, a.Now)
		s := &process{App: a, options: o, log: log, logger: logger, workers: workers, metrics: metrics.New(log, a.Version, a.Now), objects: texts.Objects(), rules: rules, builders: build.Serving(ctx, a, o.work.Inventory)}
		s.runs = workers.Runs(notices, s.begun, s.ended)
		err = s.serve(ctx, listeners, signals.Stop)
		err = errors.Join(err, workers.Close(ctx))
		if ctx.Err() != nil && errors.Is(err, context.Canceled) { // by the second signal
			return exit.Reported(runner.ErrInterrupted)
		}
		return err
	})
}

// open opens what it listens on.
func (o *options) open(ctx context.Context, logger *slog.Logger) ([]net.Listener, error) {
	where := listen.Options{Addresses: o.listen, Sockets: o.sockets, Insecure: o.insecure, Logger: logger}
	if o.tls.Certificate != "" {
		var err error
		if where.TLS, err = listen.NewTLS(o.tls, logger); err != nil {
			return nil, exit.Invalid(err)
		}
		o.authenticate.Authorities = where.TLS.Authorities
	}
	listeners, err := listen.Open(ctx, where)
	if errors.Is(err, listen.ErrInsecure) {
		return nil, exit.Usage("%w: give --tls-cert and --tls-key, listen on 127.0.0.1, or say --insecure where something else encrypts it", err)
	}
	var malformed *net.AddrError
	switch {
	case errors.As(err, &malformed):
		return nil, exit.Invalid(err)
	case err == nil && len(listeners) == 0:
		return nil, exit.Usage("it would listen nowhere: what systemd passes is no socket of a stream (ListenStream=)")
	}
	return listeners, err
}

// process is a server that runs.
type process struct {
	*app.App
	options

	log     deploylog.Log
	logger  *slog.Logger
	workers *session.Workers
	runs    *apply.Runs
	metrics *metrics.Metrics
	objects objects.Store
	rules   []notification.Rule
	// commands are those that are carried out now.
	commands reconcile.Precedence
	// builders are the workers that build jobs.
	builders func() (serve builds.Workers, inventory string, err error)
}

// serve answers requests until everything that it controls has ended: by an error, or
// because stop was closed.
func (s *process) serve(ctx context.Context, listeners []net.Listener, stop <-chan struct{}) error {
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	drain, begin := draining(stop)
	defer begin()
	answering, failed, err := s.answer(listeners, drain)
	if err != nil {
		return err
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		<-drain
		tellSystemd(s.logger, daemon.SdNotifyStopping)
		if s.stopTimeout > 0 {
			time.AfterFunc(s.stopTimeout, func() {
				kill(fmt.Errorf("what runs has not finished within --stop-timeout %s, and is killed: the next server goes on with it", s.stopTimeout))
			})
		}
	}()
	controlling := make(chan error, 1)
	go func() { controlling <- s.control(ctx, drain) }()
	silence := s.notify(begin)
	tellSystemd(s.logger, daemon.SdNotifyReady)
	select {
	case err = <-controlling:
	case cause := <-failed:
		begin()
		err = cmp.Or(cause, <-controlling)
	}
	begin()
	<-told // where nothing runs, the process would end before
	return errors.Join(err, silence(), answering.close())
}

// draining is closed by stop, or by begin.
func draining(stop <-chan struct{}) (drain <-chan struct{}, begin func()) {
	both, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-stop:
			cancel()
		case <-both.Done():
		}
	}()
	return both.Done(), cancel
}
