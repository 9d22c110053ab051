package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
)

// dialError carries the cause of a failed connection through the client
// library, which replaces causes that it recognizes, by type or by text, with a
// text of its own. So it has no Unwrap and says nothing.
type dialError struct{ cause error }

func (e *dialError) Error() string { return "no connection" }

func keepCause(conn net.Conn, err error) (net.Conn, error) {
	if err == nil {
		return conn, nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	return nil, &dialError{cause: err}
}

// unreachable wraps an error of a request that every working engine answers.
func (e *Engine) unreachable(action string, err error) error {
	if err = causeOf(err); isCancelled(err) {
		return fmt.Errorf("%s: Docker at %s: %w", action, e.endpoint.address, err)
	}
	return fmt.Errorf("%w: Docker at %s (from %s): %s: %s; %s",
		engine.ErrUnavailable, e.endpoint.address, e.endpoint.source, action, strings.TrimSpace(err.Error()), e.endpoint.advice(err))
}

// causeOf is why a request failed, without what is made up for ssh and sockets.
func causeOf(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	var dialed *dialError
	if errors.As(err, &dialed) {
		err = dialed.cause
	}
	return err
}

// lostError is an engine.ErrLost of an engine that does not answer.
type lostError struct{ text string }

// Error implements error.
func (e *lostError) Error() string { return e.text }

// Unwrap implements errors.Is and errors.As.
func (e *lostError) Unwrap() []error { return []error{engine.ErrLost, engine.ErrUnavailable} }

// lost is the error of a container that may be at work at an engine that has been silent for lostFor.
func (e *Engine) lost(err error) error {
	return &lostError{fmt.Sprintf("Docker at %s (from %s) did not answer for %s: %s; the action may still run there. Repeat the command later: it waits for the action",
		e.endpoint.address, e.endpoint.source, e.lostFor, strings.TrimSpace(causeOf(err).Error()))}
}

// wrap adds what was attempted to an error of the client, and the advice if
// the engine could not be reached.
func (e *Engine) wrap(action string, err error) error {
	var dialed *dialError
	if client.IsErrConnectionFailed(err) || errors.As(err, &dialed) {
		return e.unreachable(action, err)
	}
	return fmt.Errorf("%s: %w", action, err)
}

const certificateAdvice = "check the certificates in DOCKER_CERT_PATH or in the docker context, and that the engine speaks TLS"

// hungUp reports whether the other side ended a connection that it had accepted.
func hungUp(err error) bool {
	return errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) ||
		strings.HasSuffix(err.Error(), net.ErrClosed.Error())
}

// advice says what the user can do about an engine that does not answer.
func (e endpoint) advice(err error) string {
	text := strings.ToLower(err.Error())
	var dns *net.DNSError
	switch {
	case e.scheme() == "ssh":
		return e.sshAdvice(err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, os.ErrPermission), strings.Contains(text, "permission denied"):
		if os.Geteuid() == 0 {
			return "root may not use it, and needs no group: check with `ls -l` that it is the engine's socket"
		}
		return fmt.Sprintf("you may not use %s: join the group that owns it (usually `sudo usermod -aG docker $USER`, then log in again), or run as root", e.address)
	case errors.As(err, &dns):
		return "check the host's name"
	case strings.Contains(text, "tls-enabled"), strings.Contains(text, "http request to an https server"):
		return "the engine speaks TLS: set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH"
	case strings.Contains(text, "x509"), strings.Contains(text, "tls:"), strings.Contains(text, "certificate"):
		return certificateAdvice
	case e.docker.TLSData != nil && hungUp(err):
		// In TLS 1.3 an engine that refuses a client says so after the handshake. A
		// request that is being written then may fail before the reason is read.
		return "the engine closed the connection; " + certificateAdvice
	case e.scheme() == "unix":
		return "is the Docker daemon running? Start it with `systemctl start docker`, or set DOCKER_HOST"
	default:
		return "is the Docker daemon running and listening there? Check DOCKER_HOST"
	}
}

// sshAdvice says what the user can do about an engine behind ssh that does not answer.
func (e endpoint) sshAdvice(err error) string {
	var said *sshError
	if errors.As(err, &said) && said.remedy != "" {
		return said.remedy
	}
	to, err := parseTarget(e.address)
	if err != nil {
		return "check the address"
	}
	return fmt.Sprintf("check that `ssh %s %s` works without a question", to.words(), strings.Join(to.dialStdio()[:len(to.dialStdio())-2], " ")+" version")
}

// runError explains why a container could not be created or started. The
// daemon distinguishes these cases only in its texts.
func (e *Engine) runError(action string, spec engine.Spec, err error) error {
	text := err.Error()
	switch {
	case engine.Exhausted(err): // whatever else it says: the daemon names what it was about to do
		return e.wrap(action, err)
	case strings.Contains(text, "No such image"):
		return fmt.Errorf("%s: %w: image %q is not in the engine; pull or load it first", action, engine.ErrNoImage, spec.Image)
	case strings.Contains(text, "bind source path does not exist"):
		return &engine.SpecError{Cause: fmt.Errorf("%s: mount source %s does not exist on the engine's host: %w", action, missingSource(spec, text), err)}
	case strings.Contains(text, "network") && strings.Contains(text, "not found"):
		return &engine.SpecError{Cause: fmt.Errorf("%s: network %q is not in the engine; `docker network ls` lists what is there: %w", action, spec.Network, err)}
	case strings.Contains(text, "no command specified"), strings.Contains(text, "No command specified"):
		return &engine.SpecError{Cause: fmt.Errorf("%s: image %q has neither entrypoint nor command: give one: %w", action, spec.Image, err)}
	case strings.Contains(text, "exec format error"):
		return &engine.SpecError{Cause: fmt.Errorf("%s: %s of image %q is built for another platform than the engine's: %w", action, entrypointOf(spec), spec.Image, err)}
	case strings.Contains(text, "exec: "), strings.Contains(text, "executable file not found"):
		return &engine.SpecError{Cause: fmt.Errorf("%s: %s cannot be executed in image %q; check that the file is there and executable: %w", action, entrypointOf(spec), spec.Image, err)}
	case slices.ContainsFunc(refused, func(part string) bool { return strings.Contains(text, part) }):
		return &engine.SpecError{Cause: e.wrap(action, err)}
	default:
		return e.wrap(action, err)
	}
}

// refused are texts of the daemon about what no container can be made of.
var refused = []string{
	"working directory", "Duplicate mount point", "duplicate mount point", "inimum memory limit", "unable to find user", "invalid mount config", "invalid mount path",
	"mount path must be absolute",
}

func entrypointOf(spec engine.Spec) string {
	if spec.Entrypoint == "" {
		return "the entrypoint"
	}
	return fmt.Sprintf("entrypoint %q", spec.Entrypoint)
}

// missingSource finds the mount that the daemon complains about.
func missingSource(spec engine.Spec, text string) string {
	longest := ""
	for _, m := range spec.Mounts {
		if strings.Contains(text, m.Source) && len(m.Source) > len(longest) {
			longest = m.Source
		}
	}
	return longest
}

func isCancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// noContainer translates the engine's not-found error.
func (e *Engine) noContainer(action, id string, err error) error {
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("%s: %w: %s", action, engine.ErrNoContainer, id)
	}
	return e.wrap(action+" "+id, err)
}
