package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/hostkeys"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/runner"
)

// trust adds host keys to the files of known hosts of ssh.
type trust struct {
	options
	yes          bool
	fingerprints []string
}

func newTrustCommand(a *app.App) *cobra.Command {
	var t trust
	c := &cobra.Command{
		Use:   "trust [HOST…]",
		Short: "Add the host keys of ssh:// hosts to known_hosts",
		Long: `Read the host keys of the inventory's ssh:// hosts, and of the jump hosts that lead to
them. The command shows the SHA256 fingerprint of each new key, asks once, and adds
the keys to the first UserKnownHostsFile of your ssh configuration.

Compare a fingerprint with the one that the host itself prints:

  ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub

Without a terminal, name the fingerprints that you expect, or give --yes. A host
with another key than the known one is refused.`,
		Example: "  deployster host trust\n  deployster host trust web1 --fingerprint SHA256:Ek5bqRH2DaBmFUZWaXXlK8SCDQSBO2sFk0gwMGmYh3k\n  deployster host trust web1 web2 --yes",
		RunE: func(c *cobra.Command, names []string) error {
			if err := t.named(names); err != nil {
				return err
			}
			return t.run(c.Context(), a)
		},
	}
	t.register(c)
	arguments.RegisterYes(c, &t.yes)
	c.Flags().StringArrayVar(&t.fingerprints, "fingerprint", nil, "an expected key, SHA256:… (repeatable)")
	return c
}

// trusted holds a server and the hosts that it is. Programs read it.
type trusted struct {
	Hosts       []string `json:"hosts"`             // of the inventory; none of a jump host
	JumpOf      []string `json:"jump_of,omitempty"` // hosts that a jump host leads to
	Address     string   `json:"address"`           // as ssh is told of it
	Aliases     []string `json:"aliases,omitempty"` // other names and ports of it that ssh is told
	Status      string   `json:"status"`            // new, known, changed or failed
	Type        string   `json:"type,omitempty"`    // of its key, such as ED25519
	Fingerprint string   `json:"fingerprint,omitempty"`
	Before      string   `json:"known_fingerprint,omitempty"` // of the key that is known
	File        string   `json:"file,omitempty"`              // of known hosts
	Line        int      `json:"line,omitempty"`
	Added       bool     `json:"added"`
	Error       string   `json:"error,omitempty"`

	server hostkeys.Server
	first  hostkeys.Destination // that is the Address
}

const failed = "failed"

func (t *trust) run(ctx context.Context, a *app.App) error {
	if err := t.checkFlags(); err != nil {
		return err
	}
	list, unknown, err := t.sshHosts(a)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process
	found, err := read(ctx, a, list)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: nothing was added", runner.ErrInterrupted)
	case err != nil:
		return err
	}
	found = append(found, unknown...)
	refuseTwins(found)
	if !a.JSON() {
		if err := a.Printf("%s", a.Wrapped(keyLines(found))); err != nil {
			return err
		}
	}
	added, err := t.add(ctx, a, found)
	if a.JSON() {
		err = errors.Join(a.Show(map[string]any{"servers": found, "added": added}, nil), err)
	}
	bad := slices.Collect(func(yield func(string) bool) {
		for _, f := range found {
			if f.Error != "" && !yield(f.title()) {
				return
			}
		}
	})
	if err == nil && len(bad) > 0 {
		err = fmt.Errorf("the keys of %d of %s are not trusted", len(bad), phrase.Count(len(found), "server"))
	}
	return err
}

var validFingerprint = pattern.Lazy(`^SHA256:[A-Za-z0-9+/]{43}=?$`)

// checkFlags refuses what cannot be a fingerprint, and says how to get one.
func (t *trust) checkFlags() error {
	if t.yes && len(t.fingerprints) > 0 {
		return exit.Usage("--yes adds any key and --fingerprint only expected ones: give one of them")
	}
	for i, text := range t.fingerprints {
		switch {
		case validFingerprint().MatchString(text):
			t.fingerprints[i] = strings.TrimSuffix(text, "=")
		case validFingerprint().MatchString("SHA256:" + text):
			return exit.Usage("--fingerprint %s: write SHA256:%s", text, text)
		case strings.HasPrefix(text, "MD5:"), strings.Count(text, ":") == 15:
			return exit.Usage("--fingerprint %s is one of MD5: ssh-keygen -E sha256 -lf /etc/ssh/ssh_host_ed25519_key.pub prints the right one on the host", text)
		default:
			return exit.Usage("--fingerprint %.80q is none: it is SHA256: and 43 characters, as ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub prints on the host", text)
		}
	}
	return nil
}

// sshHost is a host of the inventory behind ssh.
type sshHost struct {
	name string
	at   hostkeys.Destination
}

// sshHosts returns the chosen hosts that are reached by ssh, and those whose address is not known. A host
// that was named must be one. It fails if there is none whose key can be read.
func (t *trust) sshHosts(a *app.App) (all []sshHost, unknown []*trusted, err error) {
	list, err := t.hosts()
	if err != nil {
		return nil, nil, err
	}
	var first error // of an unknown one
	for _, h := range list {
		var at hostkeys.Destination
		address, err := engines.Address(a, h)
		if err == nil && !strings.HasPrefix(address, "ssh://") {
			if len(t.names) > 0 {
				return nil, nil, exit.Usage("host %s is not reached by ssh, but at %s: only ssh:// endpoints have host keys", h.Name, where(h, address))
			}
			continue
		}
		if err == nil {
			at, err = hostkeys.Parse(address)
		}
		if err != nil {
			first = cmp.Or(first, exit.Invalid(fmt.Errorf("host %s: %w", h.Name, err)))
			unknown = append(unknown, &trusted{Hosts: []string{h.Name}, Address: cmp.Or(address, h.Where()), Status: failed, Error: err.Error()})
			continue
		}
		all = append(all, sshHost{h.Name, at})
	}
	if len(all) == 0 {
		return nil, nil, cmp.Or(first, exit.Usage("no host of %s that was chosen has an ssh:// endpoint: only those have host keys", t.inventory))
	}
	return all, unknown, nil
}

func where(h inventory.Host, address string) string {
	switch {
	case address != "":
		return address
	case h.Engine == inventory.OCI:
		return "this machine"
	default:
		return h.Where()
	}
}

// readAtOnce is how many servers are asked for their keys at once.
const readAtOnce = 20

// read asks the servers of hosts for their keys, and those that lead to them.
func read(ctx context.Context, a *app.App, list []sshHost) ([]*trusted, error) {
	reader, err := hostkeys.NewReader()
	if err != nil {
		return nil, err
	}
	defer func() { _ = reader.Close() }()
	var names []inventory.Host
	for _, h := range list {
		names = append(names, inventory.Host{Name: h.name})
	}
	waiting := newWaiting(names)
	shown := waiting.show(a, "host trust")
	defer shown()
	results := make([]trusted, len(list))
	var group errgroup.Group
	group.SetLimit(readAtOnce)
	for i, h := range list {
		group.Go(func() (err error) {
			defer waiting.answered(i)
			defer crash.Catch(&err, "reading the key of the host "+h.name)
			results[i] = describe(reader.Read(ctx, h.at))
			return nil
		})
	}
	if err := group.Wait(); err != nil || ctx.Err() != nil {
		return nil, err
	}
	var found []*trusted
	for i, h := range list {
		var before hostkeys.Server
		for _, jump := range results[i].server.Jumps {
			if before, err = reader.Read(ctx, jump); err != nil {
				continue // as the result says
			}
			one := merge(&found, describe(before, nil))
			one.named(jump)
			one.JumpOf = append(one.JumpOf, h.name)
		}
		one := merge(&found, results[i])
		one.named(h.at)
		one.Hosts = append(one.Hosts, h.name)
	}
	return found, ctx.Err()
}

// merge returns the result for the server of another one, which it adds if there is none.
func merge(found *[]*trusted, one trusted) *trusted {
	for _, f := range *found {
		alike := f.File == one.File && f.server.Key == one.server.Key // to ssh it is one server
		if f.Status != failed && one.Status != failed && (alike || f.server.Place() == one.server.Place()) {
			return f
		}
	}
	one.Hosts = []string{}
	*found = append(*found, &one)
	return &one
}

// describe makes a result of a server, or of the error of reading its key.
func describe(s hostkeys.Server, err error) trusted {
	t := trusted{server: s, Status: string(s.Status), Type: s.Key.ShortType(), Fingerprint: s.Key.Fingerprint, File: s.File}
	switch {
	case err != nil:
		t.Status, t.Error = failed, err.Error()
	case s.Status == hostkeys.Known:
		t.File, t.Line = s.Before.File, s.Before.Line
	case s.Status == hostkeys.Changed:
		t.Before, t.File, t.Line = s.Before.Fingerprint, s.Before.File, s.Before.Line
		t.Error = fmt.Sprintf("the host key has changed: %s:%d has %s, the host %s\nfind out why before you trust it: ssh-keygen -f %s -R '%s', then deployster host trust",
			t.File, t.Line, t.Before, t.Fingerprint, t.File, s.Key.Name)
	}
	return t
}

// refuseTwins refuses servers with one name in the file of known hosts, but several keys.
func refuseTwins(found []*trusted) {
	for i, f := range found {
		for _, other := range found[:i] {
			if f.Status == string(hostkeys.New) && other.Status == f.Status && other.server.Key.Name == f.server.Key.Name && other.Fingerprint != f.Fingerprint {
				f.Status = failed
				f.Error = fmt.Sprintf("%s is also %s to ssh, and has another key\ngive each a HostKeyAlias in ~/.ssh/config", other.title(), f.server.Key.Name)
			}
		}
	}
}

// named records that ssh is told of the server by this name. Names that differ in the user are one.
func (t *trusted) named(at hostkeys.Destination) {
	without := hostkeys.Destination{Host: at.Host, Port: at.Port}
	switch {
	case t.Address == "":
		t.Address, t.first = at.String(), without
	case without != t.first && !slices.Contains(t.Aliases, without.String()):
		t.Aliases = append(t.Aliases, without.String())
	}
}

// names are the names by which ssh is told of the server.
func (t *trusted) names() string {
	return phrase.First(append([]string{t.Address}, t.Aliases...), 3)
}

// title names the hosts of a server.
func (t *trusted) title() string {
	if len(t.Hosts) == 0 {
		return fmt.Sprintf("%s, jump host of %s", t.names(), phrase.First(t.JumpOf, 3))
	}
	return phrase.First(t.Hosts, 3)
}

// keyLines tells of all keys. A fingerprint has a line that is never cut.
func keyLines(found []*trusted) string {
	var lines strings.Builder
	for _, f := range found {
		switch {
		case f.Error != "":
			fmt.Fprintf(&lines, "✘ %s: %s\n", f.title(), strings.ReplaceAll(f.Error, "\n", "\n  "))
		case f.Status == string(hostkeys.Known):
			fmt.Fprintf(&lines, "✔ %s: known\n", f.title())
		default:
			fmt.Fprintf(&lines, "● %s: new, %s %s\n", f.title(), f.names(), f.Type)
		}
		if f.Error == "" {
			fmt.Fprintf(&lines, "  %s\n", f.Fingerprint)
		}
	}
	return lines.String()
}

// add adds the new keys if they are expected, or agreed to. It returns how many it has added.
func (t *trust) add(ctx context.Context, a *app.App, found []*trusted) (int, error) {
	var fresh []*trusted
	var servers []hostkeys.Server
	var files []string
	for _, f := range found {
		if f.Status == string(hostkeys.New) {
			fresh, servers, files = append(fresh, f), append(servers, f.server), append(files, f.File)
		}
	}
	if err := t.expected(found, fresh); err != nil {
		return 0, err
	}
	if len(fresh) == 0 {
		return 0, nil
	}
	slices.Sort(files)
	to, keys := strings.Join(slices.Compact(files), ", "), phrase.Count(len(fresh), "key")
	kind := strings.ToLower(fresh[0].Type)
	var err error
	if !t.yes && len(t.fingerprints) == 0 {
		const remedy = "name the keys that you expect with --fingerprint SHA256:…, or say --yes for any key"
		err = prompt.Ask(ctx, a, fmt.Sprintf("%s would be added to %s", keys, to), remedy, "To compare: ssh-keygen -lf /etc/ssh/ssh_host_%s_key.pub, on the host.\nAdd %s to %s?", kind, keys, to)
	}
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("%w: nothing was added", runner.ErrInterrupted)
	case err != nil:
		return 0, err
	}
	if err := hostkeys.Add(ctx, servers, rand.Reader); err != nil {
		return 0, err
	}
	for _, f := range fresh {
		f.Added = true
	}
	if a.JSON() {
		return len(fresh), nil
	}
	return len(fresh), a.Printf("added %s to %s\n", keys, to)
}

// expected refuses all keys if --fingerprint names others than those.
func (t *trust) expected(found, fresh []*trusted) error {
	if len(t.fingerprints) == 0 {
		return nil
	}
	for _, f := range fresh {
		if !slices.Contains(t.fingerprints, f.Fingerprint) {
			return fmt.Errorf("%s has the key %s, which no --fingerprint names: nothing was added", f.title(), f.Fingerprint)
		}
	}
	for _, text := range t.fingerprints {
		if !slices.ContainsFunc(found, func(f *trusted) bool { return f.Fingerprint == text }) {
			return fmt.Errorf("--fingerprint %s: no host has this key: nothing was added", text)
		}
	}
	return nil
}
