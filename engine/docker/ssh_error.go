package docker

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// sshError is why an ssh command failed: its own words, and what to do about it.
type sshError struct {
	words   string
	remedy  string // "" if there is none but to try the command by hand
	kind    failure
	again   bool // a later login may succeed
	refused bool // nobody listens there, as while a server restarts
	crowded bool // the server dropped the login, as it does when there are many
	silent  bool // the machine did not answer in time
}

func (e *sshError) Error() string { return e.words }

// failure tells apart what has consequences of its own.
type failure int

const (
	otherFailure failure = iota
	loginRefused
	keyChanged
	noCommand // there is no docker command at the far side, or none may be run
)

// saying is what ssh, a shell or the docker command at the far side prints, and what it means.
type saying struct {
	has    string
	remedy string
	kind   failure
	again  bool
}

const dropped = true

// known are the sayings with a meaning, the most telling first. Of a connection by a jump host
// the last words are always that it was closed.
var known = []saying{
	{has: "REMOTE HOST IDENTIFICATION HAS CHANGED", kind: keyChanged},
	{has: "Host key verification failed", remedy: "its host key is not known: check it and record it with `deployster host trust`"},
	{has: "Too many authentication failures", kind: loginRefused, remedy: "the agent offers too many keys: set IdentityFile and `IdentitiesOnly yes` for this host in ~/.ssh/config"},
	{has: "Permission denied (", kind: loginRefused, remedy: "the server does not accept your key: add it with `ssh-copy-id`, or check the user name and `ssh-add -l`"},
	{has: "Could not resolve hostname", remedy: "check the host's name, and HostName in ~/.ssh/config"},
	{has: "Bad configuration option", remedy: "repair your ssh configuration"},
	{has: "bad configuration options", remedy: "repair your ssh configuration"},
	{has: "Bad owner or permissions", remedy: "repair the permissions of your ssh configuration"},
	{has: "stdio forwarding failed", again: dropped},
	{has: "Connection refused", again: dropped, remedy: "is sshd running there? Check host and port"},
	{has: "Not allowed at this time", again: dropped, remedy: "the server refuses logins from here for a while: PerSourcePenalties in its sshd_config"},
	{has: "not permitted to log in", again: dropped, remedy: "remove /etc/nologin there when the machine is ready"},
	{has: "kex_exchange_identification", again: dropped, remedy: "it drops logins: raise MaxStartups in its sshd_config, or see in its log what ends them"},
	{has: "Connection timed out", again: dropped, remedy: "check that the host is up and that no firewall is in between"},
	{has: "Operation timed out", again: dropped, remedy: "check that the host is up and that no firewall is in between"},
	{has: "timed out", again: dropped, remedy: "check that the host is up and that no firewall is in between"},
	{has: "Timeout, server", again: dropped},
	{has: "Connection closed by", again: dropped},
	{has: "Connection reset", again: dropped},
	{has: "closed by remote host", again: dropped},
}

// crowded are the sayings of a server that has dropped a login.
var crowded = []string{"Not allowed at this time", "kex_exchange_identification", "Connection closed by", "Connection reset", "closed by remote host"}

// What opens the engine's socket to an account. Root needs no group.
const (
	joinGroup = "add it to the group with `sudo usermod -aG docker USER`"
	ofRoot    = "check that SOCKET is the engine's (`ls -l SOCKET` there), or name another one: ssh://HOST/PATH"
)

// spoken are sayings of the far side, which a login does not print.
var spoken = []saying{
	{has: "permission denied", remedy: "the account may not use Docker there: " + joinGroup},
	{has: "Is the docker daemon running", remedy: "start Docker there: `sudo systemctl start docker`"},
	{has: "connection refused", remedy: "start Docker there: `sudo systemctl start docker`"},
	{has: "no such file or directory", remedy: "start Docker there: `sudo systemctl start docker`, or name its socket: ssh://HOST/PATH"},
	{has: "command not found", kind: noCommand},
	{has: "docker: not found", kind: noCommand},
	{has: "Unknown command", kind: noCommand},
	{has: "This account is", kind: noCommand},
	{has: "administratively prohibited", kind: noCommand},
}

// noise are lines of ssh that tell nothing of a failure.
var noise = []string{
	"Warning: Permanently added", "mux_client_", "ControlSocket ", "Pseudo-terminal ", "@@@", "IT IS POSSIBLE", "Someone could be", "It is also possible",
	"Please contact your", "Add correct host key", "debug1:", "Load key",
}

// mostQuoted is how many bytes of what others print an error quotes.
const mostQuoted = 300

// explainSSH makes an error of what an ssh command printed, and how it ended.
func explainSSH(said string, ended error) *sshError {
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(said, "\r", "\n")) {
		line = strings.TrimSpace(line)
		if line != "" && !startsWithAny(line, noise) {
			lines = append(lines, line)
		}
	}
	failed := &sshError{}
	all := append([]saying(nil), known...)
	var exit *exec.ExitError
	if errors.As(ended, &exit) && exit.ExitCode() != 255 { // of the command at the far side
		all = append(append([]saying(nil), spoken...), known...)
	} else {
		all = append(all, spoken...)
	}
	telling := ""
	for _, s := range all {
		if i := lineWith(lines, s.has); i >= 0 {
			failed.remedy, failed.kind, failed.again, telling = s.remedy, s.kind, s.again, lines[i]
			failed.refused = s.has == "Connection refused"
			failed.silent = strings.Contains(s.has, "timed out")
			failed.crowded = s.again && slices.Contains(crowded, s.has)
			break
		}
	}
	text := strings.Join(lines, "\n")
	if failed.again && strings.Contains(text, "open failed: administratively prohibited") {
		failed.again, failed.remedy = false, "a jump host forbids forwarding: set `AllowTcpForwarding yes` in its sshd_config"
	}
	if failed.again && strings.Contains(text, "open failed: connect failed: Connection refused") {
		failed.refused = true
	}
	failed.words = lastLines(text)
	switch {
	case failed.kind == keyChanged:
		failed.words = "the host key is another one than before (REMOTE HOST IDENTIFICATION HAS CHANGED)"
		if i := lineWith(lines, "Offending "); i >= 0 {
			failed.words += "; " + lines[i]
		}
	case telling != "" && !strings.Contains(failed.words, strings.TrimRight(telling, ".")):
		failed.words = strings.TrimRight(telling, ".") + "; " + lastLines(lines[len(lines)-1])
	}
	if len(failed.words) > 2*mostQuoted {
		failed.words = failed.words[:2*mostQuoted] + "…"
	}
	if failed.words == "" {
		failed.words = "ssh ended without a word"
		if ended != nil {
			failed.words = "ssh ended without a word: " + ended.Error()
		}
	}
	return failed
}

// explainBoth completes why the docker command at the far side did not answer by why its
// socket was not forwarded; "" is not known.
func (s *session) explainBoth(failed *sshError, refusal string) {
	defer func() { failed.remedy = s.settings.complete(failed.remedy, s.tunnel.target.socket()) }()
	if failed.kind != noCommand {
		return
	}
	failed.words += fmt.Sprintf("; sshd there does not connect to %s either", s.tunnel.target.socket())
	failed.remedy = "install Docker there, or have sshd connect to its socket: `AllowTcpForwarding yes` and `AllowStreamLocalForwarding yes` in its sshd_config. If USER may not use Docker, " + joinGroup
	if isForbidding(refusal) || s.tunnel.isForbidden() {
		failed.remedy = "set `AllowTcpForwarding yes` and `AllowStreamLocalForwarding yes` in its sshd_config, or have the docker command in the PATH of USER"
	}
}

func lineWith(lines []string, part string) int {
	for i, line := range lines {
		if strings.Contains(line, part) {
			return i
		}
	}
	return -1
}

func startsWithAny(line string, starts []string) bool {
	for _, start := range starts {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return false
}

// hasPassphrase reports whether a private key needs a passphrase.
func hasPassphrase(key []byte) bool {
	_, err := ssh.ParseRawPrivateKey(key)
	var missing *ssh.PassphraseMissingError
	return errors.As(err, &missing)
}
