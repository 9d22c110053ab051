package registryauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/deployster-go/deployster/internal/pattern"
)

// mostAnswer bounds what a helper may print, mostShown what is shown of what it says when it fails, in bytes.
const (
	mostAnswer = 64 << 10
	mostShown  = 300
)

// helperName is what may follow docker-credential-: no path, so that the file names no program elsewhere.
var helperName = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// ask runs a credential helper, and reports whether it knows the registry.
func ask(ctx context.Context, name, registry string, patience time.Duration) (authn.AuthConfig, bool, error) {
	if !helperName().MatchString(name) {
		return authn.AuthConfig{}, false, fmt.Errorf("%q cannot be the name of a credential helper: it has letters, digits, _ . and -", cut(name))
	}
	program := "docker-credential-" + name
	path, err := exec.LookPath(program)
	if err != nil {
		return authn.AuthConfig{}, false, fmt.Errorf("the credential helper %s is not in PATH: install it, or remove it from the file and `docker login` again", program)
	}
	limited, stop := context.WithTimeout(ctx, patience)
	defer stop()
	printed := &answer{full: stop}
	c := exec.CommandContext(limited, path, "get")
	c.Stdin, c.Stdout, c.WaitDelay = strings.NewReader(registry), printed, time.Second
	// What it has started ends with it when it takes too long.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	err = c.Run()
	failed := new(exec.ExitError)
	said := strings.TrimSpace(string(printed.text))
	switch {
	case ctx.Err() != nil:
		return authn.AuthConfig{}, false, ctx.Err()
	case printed.over:
		return authn.AuthConfig{}, false, fmt.Errorf("the credential helper %s printed more than %d bytes: `%s get` must print one JSON object", program, mostAnswer, program)
	case limited.Err() != nil:
		return authn.AuthConfig{}, false, fmt.Errorf("the credential helper %s did not end within %s: it may wait for a key chain to be unlocked; try `echo %s | %s get`", program, patience, registry, program)
	case errors.As(err, &failed) && strings.Contains(said, "credentials not found"): // the words of the helpers' protocol
		return authn.AuthConfig{}, false, nil
	case errors.As(err, &failed):
		// What it prints when it fails is, by the protocol, a message, unless it has the form of an answer.
		if said == "" || strings.Contains(said, "{") {
			said = "it says nothing that could be shown"
		}
		return authn.AuthConfig{}, false, fmt.Errorf("the credential helper %s failed (%w): %s; try `echo %s | %s get`", program, err, cut(said), registry, program)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return authn.AuthConfig{}, false, fmt.Errorf("running the credential helper %s: %w", program, err)
	}
	var got struct{ Username, Secret string }
	if err := json.Unmarshal([]byte(said), &got); err != nil || got.Secret == "" {
		return authn.AuthConfig{}, false, fmt.Errorf(`the credential helper %s printed something else than {"Username": …, "Secret": …}: see what "echo %s | %s get" prints`, program, registry, program)
	}
	if got.Username == "<token>" { // the protocol's mark of an identity token
		return authn.AuthConfig{IdentityToken: got.Secret}, true, nil
	}
	return authn.AuthConfig{Username: got.Username, Password: got.Secret}, true, nil
}

// cut makes a text of others one short line.
func cut(text string) string {
	line := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))), " ")
	if len(line) > mostShown {
		line = strings.ToValidUTF8(line[:mostShown], "") + "…"
	}
	return line
}

// answer keeps what a helper prints, until that is too much.
type answer struct {
	text []byte
	full func() // called when there is more
	over bool
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	if a.over = a.over || len(a.text)+len(p) > mostAnswer; a.over {
		a.full()
		return len(p), nil
	}
	a.text = append(a.text, p...)
	return len(p), nil
}
