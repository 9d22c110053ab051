package docker

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	dockerssh "github.com/docker/cli/cli/connhelper/ssh"
)

// defaultSocket is the socket of a Docker Engine whose address names none.
const defaultSocket = "/var/run/docker.sock"

// target is a far machine and the socket of its engine, as an address names them.
type target struct {
	spec dockerssh.Spec
	path string // of the socket; "" if the address has none
}

func parseTarget(address string) (target, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return target{}, err
	}
	spec, err := dockerssh.NewSpec(parsed)
	if err != nil {
		return target{}, err
	}
	to := target{spec: *spec}
	if strings.Trim(spec.Path, "/") != "" {
		to.path = spec.Path
	}
	if to.arguments() == nil {
		return target{}, fmt.Errorf("ssh cannot be given the user, host or port of %s", address)
	}
	return to, nil
}

// arguments are those of the ssh command that name the machine, and a command there.
func (t target) arguments(remote ...string) []string { return t.spec.Args(remote...) }

// dialStdio is the command that connects to the engine at the far side.
func (t target) dialStdio() []string {
	if t.path == "" {
		return []string{"docker", "system", "dial-stdio"}
	}
	return []string{"docker", "--host=unix://" + t.path, "system", "dial-stdio"}
}

// socket is the engine's socket at the far side.
func (t target) socket() string {
	if t.path == "" {
		return defaultSocket
	}
	return t.path
}

// String is the target as the user of an ssh command writes it, with the socket if it is named.
func (t target) String() string { return t.words() + t.path }

// words are the arguments by which a user reaches the machine with the ssh command.
func (t target) words() string {
	text := t.spec.Host
	if t.spec.User != "" {
		text = t.spec.User + "@" + text
	}
	if t.spec.Port != "" {
		text = "-p " + t.spec.Port + " " + text
	}
	return text
}

// settings are what the ssh command makes of a target and its own configuration.
type settings struct {
	values  map[string][]string
	machine string // that takes the login first: the first jump host, else the target itself
}

// settingsTime bounds the command that prints the settings, which may run others (Match exec).
const settingsTime = 10 * time.Second

// readSettings asks the ssh command for its settings.
func (t *tunnel) readSettings(ctx context.Context) (*settings, error) {
	t.mu.Lock()
	known := t.settings
	t.mu.Unlock()
	if known != nil {
		return known, nil
	}
	values, err := askSettings(ctx, t.target.arguments())
	if err != nil {
		return nil, err
	}
	found := &settings{values: values, machine: t.owner.machine(ctx, values)}
	t.mu.Lock()
	t.settings = found
	t.mu.Unlock()
	return found, nil
}

func askSettings(ctx context.Context, arguments []string) (map[string][]string, error) {
	output, err := sshOutput(ctx, settingsTime, append([]string{"-G"}, arguments...))
	if err != nil {
		return nil, err
	}
	values := map[string][]string{}
	lines := bufio.NewScanner(strings.NewReader(output))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), " ")
		values[strings.ToLower(key)] = append(values[strings.ToLower(key)], value)
	}
	return values, nil
}

// jumpDepth bounds jump hosts of jump hosts, which may name each other.
const jumpDepth = 4

// machine is the machine at which a login with these settings arrives first: each machine
// bounds the logins that are under way there.
func (t *Tunnels) machine(ctx context.Context, values map[string][]string) string {
	var passed []string
	found := func(machine string) string {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, jump := range passed {
			t.jumps[jump] = machine
		}
		return machine
	}
	for range jumpDepth {
		jumps := first(values, "proxyjump")
		jump, _, _ := strings.Cut(jumps, ",")
		if jump == "" || jump == "none" {
			break
		}
		t.mu.Lock()
		known := t.jumps[jump]
		t.mu.Unlock()
		if known != "" {
			return found(known)
		}
		next, err := jumpSettings(ctx, jump)
		if err != nil {
			return jump
		}
		passed = append(passed, jump)
		values = next
	}
	return found(net.JoinHostPort(first(values, "hostname"), first(values, "port")))
}

// jumpSettings are those of a jump host, [USER@]HOST[:PORT] or a URL.
func jumpSettings(ctx context.Context, jump string) (map[string][]string, error) {
	if !strings.Contains(jump, "://") {
		jump = "ssh://" + jump
	}
	to, err := parseTarget(jump)
	if err != nil {
		return nil, err
	}
	return askSettings(ctx, to.arguments())
}

func first(values map[string][]string, key string) string {
	if all := values[key]; len(all) > 0 {
		return all[0]
	}
	return ""
}

// complete puts names in a remedy.
func (s *settings) complete(remedy, socket string) string {
	user := first(s.values, "user")
	if user == "root" {
		remedy = strings.Replace(remedy, joinGroup, ofRoot, 1)
	}
	return strings.NewReplacer("USER", user, "HOST", first(s.values, "host"), "SOCKET", socket).Replace(remedy)
}

// knownHosts is the option of ssh-keygen that names the file with the keys of hosts, "" for the usual one.
func (s *settings) knownHosts() string {
	files := strings.Fields(first(s.values, "userknownhostsfile"))
	if len(files) == 0 || strings.HasSuffix(files[0], "/.ssh/known_hosts") || files[0] == "/dev/null" {
		return ""
	}
	return " -f " + files[0]
}

// seconds is a setting that is a time; 0 is none.
func (s *settings) seconds(key string) int {
	n, _ := strconv.Atoi(first(s.values, key)) // "none" is 0
	return n
}

// The keep-alives by which a dead connection is noticed within a minute.
const (
	aliveInterval = 15 // seconds
	aliveCount    = 3
)

// options are those of every ssh command: nothing is asked, nothing else is forwarded, and
// nothing stays when the command ends.
func (s *settings) options(within time.Duration) []string {
	options := []string{
		"-T", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes", "-o", "PermitLocalCommand=no", "-o", "RequestTTY=no",
		"-o", "RemoteCommand=none", "-o", "ControlPersist=no", "-o", "Tunnel=no", "-o", "ForwardAgent=no", "-o", "ForwardX11=no",
		"-o", "LogLevel=INFO",
	}
	if within := s.seconds("serveraliveinterval") * s.seconds("serveralivecountmax"); within == 0 || within > aliveInterval*aliveCount {
		options = append(options, "-o", fmt.Sprintf("ServerAliveInterval=%d", aliveInterval), "-o", fmt.Sprintf("ServerAliveCountMax=%d", aliveCount))
	}
	if connect := max(1, int(within/time.Second)-1); s.seconds("connecttimeout") == 0 || s.seconds("connecttimeout") > connect {
		options = append(options, "-o", fmt.Sprintf("ConnectTimeout=%d", connect))
	}
	// Older versions know neither of these, and do neither.
	if first(s.values, "forkafterauthentication") == "yes" {
		options = append(options, "-o", "ForkAfterAuthentication=no")
	}
	if kind := first(s.values, "sessiontype"); kind != "" && kind != "default" {
		options = append(options, "-o", "SessionType=default")
	}
	return options
}

// lockedKey returns a key of the user's that has a passphrase, "" if there is none.
func (s *settings) lockedKey() string {
	home, _ := os.UserHomeDir()
	i := slices.IndexFunc(s.values["identityfile"], func(name string) bool {
		if below, in := strings.CutPrefix(name, "~/"); in {
			name = filepath.Join(home, below)
		}
		content, err := os.ReadFile(name)
		return err == nil && hasPassphrase(content)
	})
	if i < 0 {
		return ""
	}
	return s.values["identityfile"][i]
}
