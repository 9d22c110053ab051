package hostkeys

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Key is the key of a server.
type Key struct {
	Name        string // of the server, as files of known hosts have it
	Type        string // such as ssh-ed25519
	Fingerprint string // SHA256:…

	encoded string
}

// ShortType returns the type as ssh-keygen names it: ED25519, RSA, ECDSA.
func (k Key) ShortType() string {
	text := strings.ToUpper(strings.TrimPrefix(strings.TrimPrefix(k.Type, "sk-"), "ssh-"))
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "SSH-"), "-")
	text, _, _ = strings.Cut(text, "@")
	return text
}

// parseKey reads what follows the markers of a line of known hosts.
func parseKey(line string) (Key, error) {
	fields := strings.Fields(line)
	if len(fields) < 3 {
		return Key{}, fmt.Errorf("%.60q is no line of known hosts", line)
	}
	blob, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil {
		return Key{}, fmt.Errorf("the key of %s: %w", fields[0], err)
	}
	sum := sha256.Sum256(blob)
	return Key{Name: fields[0], Type: fields[1], Fingerprint: "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:]), encoded: fields[2]}, nil
}

// Status says what is known of the key that a server has.
type Status string

// The statuses.
const (
	New     Status = "new"
	Known   Status = "known"
	Changed Status = "changed" // another key is known
)

// Server is a server and its key.
type Server struct {
	Destination
	Key    Key
	Status Status
	Before Entry         // that is known, unless the key is new
	File   string        // to which a new key is added
	Jumps  []Destination // that lead to it

	hash  bool
	place string
	at    string // file with the key, for those whom the server leads on
	files []string
}

// Place tells one server from another, whichever user logs in there. Jump hosts count, as an address
// behind one may be another server behind another.
func (s Server) Place() string { return s.place }

// Reader reads the keys of servers, each once. It is safe for concurrent use.
type Reader struct {
	dir    string
	jitter func() float64 // a random part of a pause, from 0 to 1

	mu    sync.Mutex
	asked map[Destination]*asked
	reads map[string]*read
	turns map[string]chan struct{} // by the first server on the way
}

type asked struct {
	once   sync.Once
	answer configuration
	err    error
}

type read struct {
	once   sync.Once
	server Server
	err    error
}

// NewReader returns a Reader that keeps its files in a directory of its own until Close.
func NewReader() (*Reader, error) {
	dir, err := os.MkdirTemp("", "deployster-keys-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for host keys: %w", err)
	}
	return &Reader{dir: dir, jitter: rand.Float64, asked: map[Destination]*asked{}, reads: map[string]*read{}, turns: map[string]chan struct{}{}}, nil
}

// Close removes the files of the Reader.
func (r *Reader) Close() error { return os.RemoveAll(r.dir) }

// Read returns a server with its key. The jump hosts that lead to it are read before, and can be
// read again for nothing.
func (r *Reader) Read(ctx context.Context, d Destination) (Server, error) {
	c, err := r.configurationOf(ctx, d)
	if err != nil {
		return Server{}, err
	}
	jumps, err := r.chain(ctx, c)
	if err != nil {
		return Server{}, err
	}
	return r.through(ctx, d, c, jumps)
}

func (r *Reader) through(ctx context.Context, d Destination, c configuration, jumps []Destination) (Server, error) {
	place := c.place()
	for _, jump := range jumps {
		place += " through " + jump.String()
	}
	r.mu.Lock()
	one := r.reads[place]
	if one == nil {
		one = &read{}
		r.reads[place] = one
	}
	r.mu.Unlock()
	one.once.Do(func() { one.server, one.err = r.ask(ctx, d, c, jumps); one.server.place = place })
	return one.server, one.err
}

// timeout is how long a server may take to show its key.
const timeout = 20 * time.Second

// ask lets ssh find out the key of a server and compares it with what is known.
func (r *Reader) ask(ctx context.Context, d Destination, c configuration, jumps []Destination) (Server, error) {
	var way []Server
	first := c.address() // what may have too many logins at once
	for i, jump := range jumps {
		at, err := r.configurationOf(ctx, jump)
		if err != nil {
			return Server{}, err
		}
		s, err := r.through(ctx, jump, at, jumps[:i])
		if err == nil && s.Status == Changed {
			err = errors.New("its host key has changed")
		}
		if err != nil {
			return Server{Destination: d, Jumps: jumps[:i+1]}, fmt.Errorf("the jump host %s: %w", jump, err)
		}
		if way = append(way, s); i == 0 {
			first = at.address()
		}
	}
	defer r.turn(first)()
	s := Server{Destination: d, Jumps: jumps, hash: c.hash, files: c.files}
	if len(c.files) == 0 {
		return s, fmt.Errorf("the configuration of ssh for %s names no UserKnownHostsFile to which a key can be added", d)
	}
	s.File = c.files[0]
	var err error
	if s.Key, s.at, err = r.scan(ctx, d, way, ""); err != nil {
		return s, err
	}
	known, err := lookUp(ctx, s.Key.Name, slices.Concat(c.files, c.global))
	if err != nil {
		return s, err
	}
	if types := otherTypes(known, s.Key.Type); types != "" { // as ssh prefers them
		if key, at, err := r.scan(ctx, d, way, types); err == nil {
			s.Key, s.at = key, at
		}
	}
	if err := s.compare(known); err != nil || s.Status == Known {
		return s, err
	}
	e, is := authority(known)
	if !is {
		return s, nil
	}
	// ssh compares a certificate with authorities alone, whatever plain key is known.
	switch certified, err := r.isCertified(ctx, d, c, way); {
	case certified:
		s.Status, s.Before = Known, e
	case err != nil && s.Status == New: // a key that has changed is refused anyway
		return s, fmt.Errorf("check the certificate of %s: %w", d, err)
	}
	return s, nil
}

// turn waits until less than four logins are on their way to a server, which drops more of them.
func (r *Reader) turn(first string) (done func()) {
	const most = 4
	r.mu.Lock()
	turns := r.turns[first]
	if turns == nil {
		turns = make(chan struct{}, most)
		r.turns[first] = turns
	}
	r.mu.Unlock()
	turns <- struct{}{}
	return func() { <-turns }
}

// scan returns the key of a server, and the file in which ssh has recorded it. Algorithms are "" for
// those that ssh prefers.
func (r *Reader) scan(ctx context.Context, d Destination, way []Server, algorithms string) (Key, string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%s did not show its key within %s", d, timeout))
	defer cancel()
	dir, err := os.MkdirTemp(r.dir, "")
	if err != nil {
		return Key{}, "", err
	}
	file := filepath.Join(dir, "known_hosts")
	args := options("accept-new", file)
	if algorithms != "" {
		args = append(args, "-o", "HostKeyAlgorithms="+algorithms)
	}
	var key Key
	err = r.retry(ctx, func() error {
		err := knock(ctx, d, way, args)
		if text, e := os.ReadFile(file); e == nil && len(text) > 0 { // that the login failed is as it should be
			key, err = parseKey(string(text))
			return err
		}
		if err == nil {
			err = fmt.Errorf("ssh did not record the key of %s", d)
		}
		return err
	})
	return key, file, err
}

// retry calls do again, after a pause, if a server has dropped the login.
func (r *Reader) retry(ctx context.Context, do func() error) error {
	const longest = 2 * time.Second
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, longest) {
		err := do()
		if err == nil || !dropped(err) {
			return err
		}
		select {
		case <-time.After(pause/2 + time.Duration(r.jitter()*float64(pause))):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// isCertified reports whether ssh trusts a server for a certificate of an authority in the files of its
// configuration. It fails if ssh has not told.
func (r *Reader) isCertified(ctx context.Context, d Destination, c configuration, way []Server) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%s did not answer within %s", d, timeout))
	defer cancel()
	err := r.retry(ctx, func() error { return knock(ctx, d, way, options("yes", slices.Concat(c.files, c.global)...)) })
	switch said, _ := errors.AsType[*failed](err); {
	case err == nil || said != nil && c.denies(said.lines): // which comes after the check of the key
		return true, nil
	case said != nil && said.lines[len(said.lines)-1] == "Host key verification failed.":
		return false, nil
	default:
		return false, err
	}
}

// denies reports whether ssh says at last that the server itself has refused the login. A jump host on the way
// has another name, or ssh says after it that the connection was closed. A server that has shown no key may
// have ssh print any lines, but only after one that says so.
func (c configuration) denies(lines []string) bool {
	isQuote := func(line string) bool {
		return strings.HasPrefix(line, "Received disconnect from ") || strings.HasPrefix(line, "Unable to negotiate with ")
	}
	who, _, is := strings.Cut(lines[len(lines)-1], ": Permission denied (")
	return is && strings.EqualFold(who, c.user+"@"+c.hostname) && !slices.ContainsFunc(lines, isQuote)
}

// knock connects to a server with options of ssh, and offers no way to log in.
func knock(ctx context.Context, d Destination, way []Server, options []string) error {
	args := append(slices.Clone(options), "-o", "GlobalKnownHostsFile=/dev/null", "-o", "PreferredAuthentications=none", "-o", "ClearAllForwardings=yes")
	if len(way) > 0 {
		args = append(args, "-o", "ProxyJump=none", "-o", "ProxyCommand="+proxyCommand(way))
	}
	_, err := run(ctx, "ssh", append(append(append(args, "-T"), d.arguments()...), "true")...)
	return err
}

// dropped reports whether a server has more logins than it takes at once.
func dropped(err error) bool {
	return slices.ContainsFunc([]string{"kex_exchange_identification", "Connection closed by", "Connection reset", "Not allowed at this time"}, func(part string) bool {
		return strings.Contains(err.Error(), part)
	})
}

// options returns arguments of ssh for a connection that asks nothing, changes nothing and stands
// for itself. Files are those of known hosts.
func options(checking string, files ...string) []string {
	for i, file := range files {
		files[i] = `"` + strings.ReplaceAll(file, "%", "%%") + `"`
	}
	var args []string
	for _, option := range []string{
		"StrictHostKeyChecking=" + checking, "UserKnownHostsFile=" + strings.Join(files, " "), "HashKnownHosts=no", "UpdateHostKeys=no", "CheckHostIP=no",
		"BatchMode=yes", "ConnectTimeout=10", "ControlMaster=no", "ControlPath=none", "PermitLocalCommand=no", "RemoteCommand=none", "LogLevel=ERROR",
	} {
		args = append(args, "-o", option)
	}
	return args
}

// proxyCommand returns the command that leads through servers, whose keys need not be known.
func proxyCommand(way []Server) string {
	last := way[len(way)-1]
	args := append([]string{"ssh"}, options("yes", append(slices.Clone(last.files), last.at)...)...)
	if before := way[:len(way)-1]; len(before) > 0 {
		args = append(args, "-o", "ProxyJump=none", "-o", "ProxyCommand="+proxyCommand(before))
	}
	var words []string
	for _, arg := range append(args, last.arguments()...) {
		if arg == "--" { // before it stands where to lead to
			words = append(words, "-W", "'[%h]:%p'")
		}
		words = append(words, "'"+strings.ReplaceAll(strings.ReplaceAll(arg, "%", "%%"), "'", `'\''`)+"'")
	}
	return strings.Join(words, " ")
}
