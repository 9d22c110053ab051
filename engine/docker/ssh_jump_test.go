package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

// behindJump starts two servers that are reached as "one" and "two" through a jump host, which
// the lines name.
func behindJump(t *testing.T, lines ...string) (jump, one, two *sshd) {
	jump = startSSHD(t)
	one, two = jump.beside(), jump.beside()
	host := func(name string, server *sshd, more ...string) []string {
		return append([]string{"Host " + name, "  HostName 127.0.0.1", fmt.Sprintf("  Port %d", server.port)}, more...)
	}
	config := append(host("one", one, lines...), host("two", two, lines...)...)
	jump.configure(append(config, host("gate gate2", jump)...)...)
	return jump, one, two
}

// intercept has the ssh command run a command of the shell before calls that match a pattern.
func (s *sshd) intercept(pattern, command string) {
	bin := filepath.Join(s.client.Dir, "bin", "ssh")
	script := string(must.Get(os.ReadFile(bin))(s.t))
	script = strings.Replace(script, "exec ", fmt.Sprintf("case \"$*\" in %s) %s;; esac\nexec ", pattern, command), 1)
	require.NoError(s.t, os.WriteFile(bin, []byte(script), 0o755))
}

// masters counts the ssh commands so far that log in at a host to stay.
func (s *sshd) masters(host string) int {
	n := 0
	for _, call := range s.client.Calls() {
		if strings.HasPrefix(call, "-N ") && strings.HasSuffix(call, " "+host) {
			n++
		}
	}
	return n
}

// Engines behind a jump host share one login there.
func TestSSHSharesAJumpHost(t *testing.T) {
	jump, one, two := behindJump(t, "  ProxyJump gate")
	probe := loadProbe(t, open(t))
	tunnels := NewTunnels(nil)
	defer func() { assert.NoError(t, tunnels.Close()) }()
	engines := make([]*Engine, 2)
	var group sync.WaitGroup
	for i, address := range []string{"ssh://one", "ssh://two"} {
		group.Go(func() {
			e, err := Open(t.Context(), Options{Host: address, Tunnels: tunnels})
			if assert.NoError(t, err) {
				engines[i] = e
			}
		})
	}
	group.Wait()
	require.False(t, t.Failed())
	for i, address := range []string{"ssh://one", "ssh://two"} {
		assert.Equal(t, "ssh, forwarded socket", engines[i].Route())
		burst(t, engines[i])
		checkRemote(t, engines[i], probe, address)
	}
	assert.Equal(t, []int{1, 1, 1}, []int{jump.logins(), one.logins(), two.logins()}, "logins")

	jump.killSessions()
	for _, e := range engines {
		waittest.Until(t, func() bool { _, err := e.Info(t.Context()); return err == nil }, "the engine answers again")
	}
	assert.Equal(t, []int{2, 2, 2}, []int{jump.logins(), one.logins(), two.logins()}, "logins after the jump host's connection broke")

	through := must.Get(Open(t.Context(), Options{Host: "ssh://gate", Tunnels: tunnels}))(t)
	assert.Equal(t, 2, jump.logins(), "an engine of the jump host shares the login, too")
	for _, e := range append(engines, through) {
		assert.NoError(t, e.Close())
	}
	for _, tunnel := range tunnels.tunnels {
		tunnel.endUnused()
	}
	waittest.Until(t, func() bool { return tunnels.users("gate") == 0 }, "the engines' connections give the jump host up")
}

// users counts the users of a tunnel.
func (t *Tunnels) users(key string) int {
	t.mu.Lock()
	found := t.tunnels[key]
	t.mu.Unlock()
	found.mu.Lock()
	defer found.mu.Unlock()
	return found.users
}

// The ssh command finds its own way if no login at the jump host can be shared. If that only
// broke, the next one is shared.
func TestSSHJumpHostIsNotShared(t *testing.T) {
	for name, test := range map[string]struct {
		pattern, command string
		jump             string
		masters          int // at the jump host
	}{
		"the login is refused":            {"-N*gate", "echo 'Permission denied (publickey).' >&2; exit 255", "gate", 1},
		"the ssh process is killed":       {"-N*gate", "kill -9 $$", "gate", 1},
		"nothing connects through it":     {"-T*\" -W \"*", "exit 255", "gate", 1},
		"its connection breaks meanwhile": {"-T*\" -W \"*", `[ -e "$0.once" ] || { touch "$0.once"; ssh -O exit -S "$(echo "$*" | sed "s/.*-S \([^ ]*\) .*/\1/")" x; exit 255; }`, "gate", 2},
		"there are several jump hosts":    {"never", ":", "gate,gate2", 0},
		"the jump host is behind another": {"never", ":", "gate", 0},
	} {
		t.Run(name, func(t *testing.T) {
			jump, one, _ := behindJump(t, "  ProxyJump "+test.jump)
			jump.intercept(test.pattern, test.command)
			if strings.Contains(name, "behind") {
				config := filepath.Join(jump.client.Dir, "ssh_config")
				lines := string(must.Get(os.ReadFile(config))(t))
				require.NoError(t, os.WriteFile(config, []byte("Host gate\n  ProxyJump gate2\n"+lines), 0o600))
			}
			e := openWith(t, Options{Host: "ssh://one"})
			assert.Equal(t, "ssh, forwarded socket", e.Route())
			burst(t, e)
			one.killSessions()
			waittest.Until(t, func() bool { _, err := e.Info(t.Context()); return err == nil }, "the engine answers again")
			assert.Equal(t, 2, one.logins(), "logins")
			assert.Equal(t, test.masters, jump.masters("gate"), "it is remembered")
		})
	}
}

// A jump host that is away is named.
func TestSSHJumpHostIsAway(t *testing.T) {
	jump, _, _ := behindJump(t, "  ProxyJump gate")
	jump.halt()
	_, err := Open(t.Context(), Options{Host: "ssh://one"})
	checkError(t, err, engine.ErrUnavailable, "ssh://one", "jump host gate: ", "Connection refused", "is sshd running there?")
}

func TestParseJump(t *testing.T) {
	for text, words := range map[string]string{
		"gate":                   "gate",
		"me@gate.example:2222":   "-p 2222 me@gate.example",
		"[192.0.2.1]:22":         "-p 22 192.0.2.1",
		"me@[2001:db8::1]":       "me@2001:db8::1",
		"":                       "",
		"none":                   "",
		"gate,gate2":             "",
		"ssh://gate":             "",
		"-oProxyCommand=x":       "",
		"me@-oProxyCommand=x":    "",
		"-l@gate":                "",
		"gate;reboot":            "",
		"$(reboot)":              "",
		"gate'":                  "",
		"two words":              "",
		"gate\nreboot":           "",
		"gate:port":              "",
		"%h":                     "",
		"me@elsewhere@gate":      "",
		"gate:22 -oForwardX11=y": "",
	} {
		to, is := parseJump(text)
		assert.Equal(t, words != "", is, "%q", text)
		if is {
			assert.Equal(t, words, to.words(), "%q", text)
		}
	}
}
