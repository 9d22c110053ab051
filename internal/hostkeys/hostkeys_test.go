package hostkeys_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/deployster-go/deployster/internal/hostkeys"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/sshdtest"
)

// read reads the key of a server, as a new Reader.
func read(t *testing.T, address string) (hostkeys.Server, error) {
	t.Helper()
	r := must.Get(hostkeys.NewReader())(t)
	defer func() { require.NoError(t, r.Close()) }()
	return r.Read(t.Context(), must.Get(hostkeys.Parse(address))(t))
}

func add(t *testing.T, servers ...hostkeys.Server) {
	require.NoError(t, hostkeys.Add(t.Context(), servers, rand.Reader))
}

// logsIn reports whether ssh logs in to a server without a question, with what is known.
func logsIn(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("ssh", append([]string{"-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"}, args...)...).CombinedOutput()
	assert.NoError(t, err, "%s", out)
}

func TestAKeyIsReadAddedAndKnown(t *testing.T) {
	c := sshdtest.NewClient(t)
	s := sshdtest.Start(t, c, "rsa", "ed25519")
	address := "ssh://" + c.User + "@127.0.0.1:" + s.Port

	found := must.Get(read(t, address))(t)
	assert.Equal(t, hostkeys.New, found.Status)
	assert.Equal(t, "ED25519", found.Key.ShortType())
	assert.Equal(t, s.Fingerprint(t, "ed25519"), found.Key.Fingerprint)
	assert.Equal(t, c.KnownHosts, found.File)
	assert.NoFileExists(t, c.KnownHosts, "reading adds nothing")

	add(t, found)
	info := must.Get(os.Stat(c.KnownHosts))(t)
	assert.Equal(t, fs.FileMode(0o600), info.Mode())
	logsIn(t, "-p", s.Port, "127.0.0.1", "true")
	again := must.Get(read(t, address))(t)
	assert.Equal(t, hostkeys.Known, again.Status)
	assert.Equal(t, 1, again.Before.Line)

	s.Keys(t, "rsa", "ed25519")
	changed := must.Get(read(t, address))(t)
	assert.Equal(t, hostkeys.Changed, changed.Status)
	assert.Equal(t, s.Fingerprint(t, "ed25519"), changed.Key.Fingerprint)
	assert.Equal(t, found.Key.Fingerprint, changed.Before.Fingerprint)
}

// A host that is known by a key of another type than ssh would ask for is known all the same, and
// has changed if that key is gone.
func TestAHostIsKnownByAnyOfItsKeys(t *testing.T) {
	c := sshdtest.NewClient(t)
	s := sshdtest.Start(t, c, "rsa", "ed25519")
	key := string(must.Get(os.ReadFile(filepath.Join(s.Dir, "host_rsa.pub")))(t))
	require.NoError(t, os.WriteFile(c.KnownHosts, fmt.Appendf(nil, "[127.0.0.1]:%s %s", s.Port, key), 0o600))
	found := must.Get(read(t, "ssh://127.0.0.1:"+s.Port))(t)
	assert.Equal(t, hostkeys.Known, found.Status)
	assert.Equal(t, s.Fingerprint(t, "rsa"), found.Key.Fingerprint)

	s.Keys(t, "ed25519")
	found = must.Get(read(t, "ssh://127.0.0.1:"+s.Port))(t)
	assert.Equal(t, hostkeys.Changed, found.Status)
	assert.Equal(t, "RSA", found.Before.ShortType())
}

func TestNamesAreHashedIfTheConfigurationSaysSo(t *testing.T) {
	c := sshdtest.NewClient(t, "HashKnownHosts yes", "Host web1", "  HostName 127.0.0.1")
	s := sshdtest.Start(t, c)
	before := "old.example ssh-ed25519 AAAA" // without an end of line, as editors leave it
	target := filepath.Join(c.Dir, "elsewhere")
	require.NoError(t, os.WriteFile(target, []byte(before), 0o644))
	require.NoError(t, os.Symlink(target, c.KnownHosts))
	add(t, must.Get(read(t, "ssh://web1:"+s.Port))(t))

	text := string(must.Get(os.ReadFile(target))(t))
	assert.True(t, strings.HasPrefix(text, before+"\n|1|"), "%s", text)
	assert.Equal(t, 2, strings.Count(text, "\n"))
	assert.NotContains(t, text, "127.0.0.1")
	assert.Equal(t, fs.FileMode(0o644), must.Get(os.Stat(target))(t).Mode(), "a file that was there keeps its mode")
	assert.Equal(t, hostkeys.Known, must.Get(read(t, "ssh://web1:"+s.Port))(t).Status)
	logsIn(t, "-p", s.Port, "web1", "true")
}

// Two jump hosts, of which nothing is known, lead to a server. The one that ssh needs for the first
// of them stands in its own configuration.
func TestKeysBehindJumpHostsAreRead(t *testing.T) {
	c := sshdtest.NewClient(t)
	outer, inner, s := sshdtest.Start(t, c), sshdtest.Start(t, c), sshdtest.Start(t, c)
	c.Configure(t, "Host outer", "  HostName 127.0.0.1", "  Port "+outer.Port, "  HostKeyAlias outer.example", "Host inner", "  HostName localhost", "  Port "+inner.Port, "  ProxyJump outer",
		"Host web1", "  HostName 127.0.0.1", "  Port "+s.Port, "  ProxyJump "+c.User+"@inner")
	r := must.Get(hostkeys.NewReader())(t)
	defer r.Close()
	found := must.Get(r.Read(t.Context(), hostkeys.Destination{Host: "web1"}))(t)
	assert.Equal(t, s.Fingerprint(t, "ed25519"), found.Key.Fingerprint)
	require.Len(t, found.Jumps, 2)
	servers := []hostkeys.Server{found}
	asked := outer.Connections() + inner.Connections()
	for _, jump := range found.Jumps {
		servers = append(servers, must.Get(r.Read(t.Context(), jump))(t))
	}
	assert.Equal(t, asked, outer.Connections()+inner.Connections(), "what was read is read again")
	assert.Equal(t, "outer.example", servers[1].Key.Name)
	assert.Equal(t, inner.Fingerprint(t, "ed25519"), servers[2].Key.Fingerprint)
	add(t, servers...)
	logsIn(t, "web1", "true")

	// What has changed on the way is refused before it is passed.
	outer.Keys(t)
	before := inner.Connections()
	_, err := read(t, "ssh://web1")
	assert.ErrorContains(t, err, "the jump host outer: its host key has changed")
	assert.Equal(t, before, inner.Connections())
}

func TestAServerThatDropsLoginsIsAskedAgain(t *testing.T) {
	c := sshdtest.NewClient(t)
	s := sshdtest.Start(t, c)
	s.Drop(2)
	found := must.Get(read(t, "ssh://127.0.0.1:"+s.Port))(t)
	assert.Equal(t, hostkeys.New, found.Status)
	assert.Equal(t, 3, s.Connections())
}

func TestAJumpHostThatRefusesTheLoginIsNamed(t *testing.T) {
	c := sshdtest.NewClient(t)
	jump, s := sshdtest.Start(t, c), sshdtest.Start(t, c)
	c.Configure(t, "Host bastion", "  HostName 127.0.0.1", "  Port "+jump.Port, "  IdentityFile "+filepath.Join(jump.Dir, "host_ed25519"), "Host web1", "  HostName 127.0.0.1", "  ProxyJump bastion")
	sshdtest.NewKey(t, filepath.Join(c.Dir, "key"), "ed25519") // which the servers do not know
	require.NoError(t, os.Rename(filepath.Join(c.Dir, "key.pub"), filepath.Join(c.Dir, "unknown.pub")))
	_, err := read(t, "ssh://web1:"+s.Port)
	assert.EqualError(t, err, c.User+"@127.0.0.1: Permission denied (publickey).")
	assert.Equal(t, 2, jump.Connections(), "what is refused is not tried again")
}

func TestARevokedKeyAndAnAuthority(t *testing.T) {
	c := sshdtest.NewClient(t)
	s := sshdtest.Start(t, c)
	key := string(must.Get(os.ReadFile(filepath.Join(s.Dir, "host_ed25519.pub")))(t))
	require.NoError(t, os.WriteFile(c.KnownHosts, fmt.Appendf(nil, "@revoked * %s", key), 0o600))
	_, err := read(t, "ssh://127.0.0.1:"+s.Port)
	assert.ErrorContains(t, err, c.KnownHosts+":1 revokes")
	// An authority vouches for certificates. ssh does not trust a plain key for it.
	authority := filepath.Join(s.Dir, "authority")
	sshdtest.NewKey(t, authority, "ed25519")
	public := string(must.Get(os.ReadFile(authority + ".pub"))(t))
	require.NoError(t, os.WriteFile(c.KnownHosts, fmt.Appendf(nil, "@cert-authority * %s@cert-authority * %s", key, public), 0o600))
	assert.Equal(t, hostkeys.New, must.Get(read(t, "ssh://127.0.0.1:"+s.Port))(t).Status)
	s.Certify(t, authority, "127.0.0.1")
	found := must.Get(read(t, "ssh://127.0.0.1:"+s.Port))(t)
	assert.Equal(t, hostkeys.Known, found.Status)
	logsIn(t, "-p", s.Port, "127.0.0.1", "true")

	// A dropped login tells nothing of the certificate, and neither do the words of a server without a key.
	s.DropAfter(1, 1, nil)
	assert.Equal(t, hostkeys.Known, must.Get(read(t, "ssh://127.0.0.1:"+s.Port))(t).Status)
	denied := "no\n" + c.User + "@127.0.0.1: Permission denied (publickey)."
	s.DropAfter(1, 1, sshdtest.Disconnect(denied))
	_, err = read(t, "ssh://127.0.0.1:"+s.Port)
	assert.ErrorContains(t, err, "check the certificate of 127.0.0.1:"+s.Port+": ")
	assert.ErrorContains(t, err, denied[3:])
	jump := sshdtest.Start(t, c)
	c.Configure(t, "Host web1", "  HostName 127.0.0.1", "  Port "+s.Port, "  ProxyJump bastion", "Host bastion", "  HostName 127.0.0.1", "  Port "+jump.Port)
	assert.Equal(t, hostkeys.Known, must.Get(read(t, "ssh://web1"))(t).Status)
	jump.DropAfter(3, 1, sshdtest.Disconnect(denied)) // its key, its certificate, and the key of web1
	_, err = read(t, "ssh://web1")
	assert.ErrorContains(t, err, "check the certificate of web1: ")
	assert.ErrorContains(t, err, denied[3:])

	// ssh trusts a certificate whatever plain key it knows, unless the key is revoked.
	other := filepath.Join(c.Dir, "other")
	sshdtest.NewKey(t, other, "ed25519")
	trusted := fmt.Sprintf("@cert-authority * %s[127.0.0.1]:%s %s", public, s.Port, must.Get(os.ReadFile(other+".pub"))(t))
	require.NoError(t, os.WriteFile(c.KnownHosts, []byte(trusted), 0o600))
	logsIn(t, "-p", s.Port, "127.0.0.1", "true")
	found = must.Get(read(t, "ssh://127.0.0.1:"+s.Port))(t)
	assert.Equal(t, hostkeys.Known, found.Status)
	assert.Equal(t, 1, found.Before.Line)
	s.DropAfter(1, 1, sshdtest.Disconnect(denied))
	assert.Equal(t, hostkeys.Changed, must.Get(read(t, "ssh://127.0.0.1:"+s.Port))(t).Status)
	require.NoError(t, os.WriteFile(c.KnownHosts, fmt.Appendf(nil, "%s@revoked * %s", trusted, key), 0o600))
	_, err = read(t, "ssh://127.0.0.1:"+s.Port)
	assert.ErrorContains(t, err, c.KnownHosts+":3 revokes")
	require.NoError(t, os.WriteFile(c.KnownHosts, []byte(trusted), 0o600))
	s.Certify(t, authority, "elsewhere")
	assert.Equal(t, hostkeys.Changed, must.Get(read(t, "ssh://127.0.0.1:"+s.Port))(t).Status)
	require.NoError(t, os.WriteFile(c.KnownHosts, fmt.Appendf(nil, "@cert-authority * %s", public), 0o600))
	assert.Equal(t, hostkeys.New, must.Get(read(t, "ssh://127.0.0.1:"+s.Port))(t).Status)
}

// Others add keys at the same instant. No line is lost, and none is there twice.
func TestKeysAreAddedAtOneInstant(t *testing.T) {
	c := sshdtest.NewClient(t)
	found := must.Get(read(t, "ssh://127.0.0.1:"+sshdtest.Start(t, c).Port))(t)
	const names, times = 10, 2
	var group errgroup.Group
	for i := range names * times {
		one := found
		one.Key.Name = fmt.Sprint("web", i%names)
		group.Go(func() error { return hostkeys.Add(t.Context(), []hostkeys.Server{one}, rand.Reader) })
	}
	require.NoError(t, group.Wait())
	text := string(must.Get(os.ReadFile(c.KnownHosts))(t))
	for i := range names {
		assert.Equal(t, 1, strings.Count(text, fmt.Sprint("web", i, " ")), "%s", text)
	}
}

// Other programs, such as ssh-keygen -R, put a new file in place of the old one while keys are added.
func TestKeysAreAddedToTheFileThatReplacedTheOldOne(t *testing.T) {
	for _, lookUps := range []int{1, 2} {
		c := sshdtest.NewClient(t)
		found := must.Get(read(t, "ssh://127.0.0.1:"+sshdtest.Start(t, c).Port))(t)
		require.NoError(t, os.WriteFile(c.KnownHosts, []byte("old.example ssh-ed25519 AAAA\n"), 0o600))
		script := fmt.Sprintf(`#!/bin/sh
echo >>'%[2]s/looked'
'%[1]s' "$@"
code=$?
[ "$(wc -l <'%[2]s/looked')" -gt %[3]d ] || { echo 'new.example ssh-ed25519 AAAA' >'%[2]s/new'; mv '%[2]s/new' '%[4]s'; }
exit $code
`, must.Get(exec.LookPath("ssh-keygen"))(t), c.Dir, lookUps, c.KnownHosts)
		require.NoError(t, os.WriteFile(filepath.Join(c.Dir, "bin", "ssh-keygen"), []byte(script), 0o700))
		servers := []hostkeys.Server{found, found}
		servers[1].Key.Name = "web1"
		add(t, servers...)
		text := string(must.Get(os.ReadFile(c.KnownHosts))(t))
		assert.True(t, strings.HasPrefix(text, "new.example "), "%s", text)
		assert.Contains(t, text, found.Key.Name+" ")
		assert.Contains(t, text, "web1 ")
		assert.Equal(t, 3, strings.Count(text, "\n"), "%s", text)
	}
}

func TestWhatSshCannotDoIsSaidInItsWords(t *testing.T) {
	c := sshdtest.NewClient(t, "Host loop1", "  ProxyJump loop2", "Host loop2", "  ProxyJump loop1", "Host nofile", "  UserKnownHostsFile none", "Host command", "  HostName 127.0.0.1", "  Port 1", "  RemoteCommand tmux", "  RequestTTY yes",
		"Host behind", "  ProxyJump jumper@127.0.0.1:1")
	for address, want := range map[string]string{
		"ssh://127.0.0.1:1":     "connect to host 127.0.0.1 port 1: Connection refused",
		"ssh://nowhere.invalid": "Could not resolve hostname nowhere.invalid",
		"ssh://loop1":           "look for a loop in the ProxyJump lines of ~/.ssh/config",
		"ssh://nofile":          "names no UserKnownHostsFile",
		"ssh://command":         "connect to host 127.0.0.1 port 1: Connection refused",
		"ssh://behind":          "connect to host 127.0.0.1 port 1: Connection refused", // ssh -G writes the address in brackets
	} {
		_, err := read(t, address)
		assert.ErrorContains(t, err, want)
	}
	c.Configure(t, "Nonsense yes")
	_, err := read(t, "ssh://web1")
	assert.ErrorContains(t, err, "read the configuration of ssh for web1: ")
	assert.ErrorContains(t, err, "Bad configuration option: nonsense")
	t.Setenv("PATH", t.TempDir())
	_, err = read(t, "ssh://web1")
	assert.ErrorContains(t, err, "there is no ssh here: install openssh-client")
}

func TestAFileOfKnownHostsThatCannotBeWrittenStays(t *testing.T) {
	c := sshdtest.NewClient(t)
	s := sshdtest.Start(t, c)
	found := must.Get(read(t, "ssh://127.0.0.1:"+s.Port))(t)
	require.NoError(t, os.Mkdir(c.KnownHosts, 0o700))
	assert.ErrorContains(t, hostkeys.Add(t.Context(), []hostkeys.Server{found}, rand.Reader), "add host keys to "+c.KnownHosts)
	assert.Error(t, hostkeys.Add(t.Context(), []hostkeys.Server{found}, bytes.NewReader(nil)))
	assert.Len(t, must.Get(filepath.Glob(filepath.Join(c.Dir, ".deployster-new-*")))(t), 0)
}
