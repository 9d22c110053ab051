// Package hostkeys reads the host keys of ssh servers, compares them with the files of known hosts,
// and adds them there.
//
// The user's ssh does the work, with its whole configuration: aliases, ports, jump hosts. A Reader
// lets ssh record the key of a server in a file of its own, and offers no way to log in there. Only
// jump hosts, which lead to a server, are logged in to.
package hostkeys

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Destination is what ssh is told of a server. User and Port are "" if ssh is to know them.
type Destination struct{ User, Host, Port string }

// Parse reads the address of a server, ssh://[USER@]HOST[:PORT][/PATH].
func Parse(address string) (Destination, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "ssh" || u.Hostname() == "" {
		return Destination{}, fmt.Errorf("%q is no address such as ssh://user@host:22", address)
	}
	for _, name := range []string{u.Hostname(), u.User.Username()} {
		if strings.ContainsFunc(name, strange) || strings.HasPrefix(name, "-") {
			return Destination{}, fmt.Errorf("%q holds a name that ssh may hand to a shell: only letters, digits and . _ - : %% @ + are possible", address)
		}
	}
	return Destination{User: u.User.Username(), Host: u.Hostname(), Port: u.Port()}, nil
}

// strange reports whether a rune has no place in the name of a host or a user.
func strange(r rune) bool {
	usual := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-:%@+", r)
	return !usual
}

// parseJump reads a jump host as ssh prints it: [USER@]HOST[:PORT], or an address.
func parseJump(text string) (Destination, error) {
	if !strings.Contains(text, "://") {
		text = "ssh://" + text
	}
	before, rest, bracketed := strings.Cut(text, "[")
	if host, after, closed := strings.Cut(rest, "]"); bracketed && closed && !strings.Contains(host, ":") {
		text = before + host + after // which ssh -G writes with a port, whatever the host is
	}
	return Parse(text)
}

func (d Destination) String() string {
	text := d.Host
	if d.Port != "" {
		text = net.JoinHostPort(d.Host, d.Port)
	}
	if d.User != "" {
		text = d.User + "@" + text
	}
	return text
}

// arguments returns the destination as arguments of ssh.
func (d Destination) arguments() []string {
	var args []string
	if d.User != "" {
		args = append(args, "-l", d.User)
	}
	if d.Port != "" {
		args = append(args, "-p", d.Port)
	}
	return append(args, "--", d.Host)
}

// configuration is what the user's configuration of ssh says of a destination.
type configuration struct {
	user, hostname, port, alias string
	files, global               []string // of known hosts
	hash                        bool     // names are hashed there
	jumps                       []Destination
}

// place tells one server from another.
func (c configuration) place() string {
	return strings.Join([]string{c.hostname, c.port, c.alias}, " ")
}

// address returns where the server listens, whatever it is called.
func (c configuration) address() string { return net.JoinHostPort(c.hostname, c.port) }

// configurationOf asks ssh for its configuration of a destination.
func configurationOf(ctx context.Context, d Destination) (configuration, error) {
	out, err := run(ctx, "ssh", append([]string{"-G"}, d.arguments()...)...)
	if err != nil {
		return configuration{}, fmt.Errorf("read the configuration of ssh for %s: %w", d, err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return configuration{}, err
	}
	c := configuration{}
	lines := bufio.NewScanner(strings.NewReader(out))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), " ")
		switch key {
		case "user":
			c.user = value
		case "hostname":
			c.hostname = value
		case "port":
			c.port = value
		case "hostkeyalias":
			c.alias = value
		case "hashknownhosts":
			c.hash = value == "yes"
		case "userknownhostsfile":
			c.files = paths(value, home)
		case "globalknownhostsfile":
			c.global = paths(value, home)
		case "proxyjump":
			if value == "none" {
				continue
			}
			for text := range strings.SplitSeq(value, ",") {
				jump, err := parseJump(text)
				if err != nil {
					return c, fmt.Errorf("the ProxyJump of %s: %w", d, err)
				}
				c.jumps = append(c.jumps, jump)
			}
		}
	}
	return c, lines.Err()
}

// paths splits a list of paths, which may have spaces in them. Each begins with / or ~; an old ssh
// leaves it to its caller what that is.
func paths(list, home string) []string {
	var all []string
	for rest := list; rest != ""; {
		next := len(rest)
		for _, begin := range []string{" /", " ~"} {
			if i := strings.Index(rest, begin); i >= 0 {
				next = min(next, i)
			}
		}
		path := rest[:next]
		rest = strings.TrimPrefix(rest[next:], " ")
		if below, is := strings.CutPrefix(path, "~/"); is {
			path = filepath.Join(home, below)
		}
		if path != "none" && path != "/dev/null" {
			all = append(all, path)
		}
	}
	return all
}

// configurationOf is that of ssh, which is asked once for each destination.
func (r *Reader) configurationOf(ctx context.Context, d Destination) (configuration, error) {
	r.mu.Lock()
	one := r.asked[d]
	if one == nil {
		one = &asked{}
		r.asked[d] = one
	}
	r.mu.Unlock()
	one.once.Do(func() { one.answer, one.err = configurationOf(ctx, d) })
	return one.answer, one.err
}

// maxJumps is how many jump hosts may lead to a server, one after the other.
const maxJumps = 8

var errTooManyJumps = fmt.Errorf("more than %d jump hosts lead to it: look for a loop in the ProxyJump lines of ~/.ssh/config", maxJumps)

// chain returns all jump hosts on the way to a server, in their order. ssh takes the one that a jump
// host itself needs for the first of them alone.
func (r *Reader) chain(ctx context.Context, c configuration) ([]Destination, error) {
	all := c.jumps
	for first := c; len(first.jumps) > 0; {
		if len(all) > maxJumps {
			return nil, errTooManyJumps
		}
		var err error
		if first, err = r.configurationOf(ctx, first.jumps[0]); err != nil {
			return nil, err
		}
		all = append(append([]Destination{}, first.jumps...), all...)
	}
	return all, nil
}

// errNoSSH is the error of a machine without ssh.
var errNoSSH = errors.New("there is no ssh here: install openssh-client")

// failed is the error of a program that failed.
type failed struct {
	text  string
	lines []string // of its output
}

func (f *failed) Error() string { return f.text }

// failure returns what a program said as it failed, in two lines at most.
func failure(err error, output string) error {
	if errors.Is(err, exec.ErrNotFound) {
		return errNoSSH
	}
	const most = 2
	var lines []string
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "Pseudo-terminal") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return err
	}
	said := lines
	// An ssh that leads through another one says that this has ended, and not why.
	isEcho := func(line string) bool {
		return strings.HasPrefix(line, "kex_exchange_identification") || strings.Contains(line, "UNKNOWN port 65535")
	}
	if rest := slices.DeleteFunc(slices.Clone(lines), isEcho); len(rest) > 0 {
		lines = rest
	}
	return &failed{strings.Join(lines[max(0, len(lines)-most):], "; "), said}
}
