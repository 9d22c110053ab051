package tfplugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// stopGrace is how long a provider may take to end when it is asked to.
const stopGrace = 2 * time.Second

// process is the process of a provider.
type process struct {
	rpc    rpc
	names  methods
	output *output
	kill   context.CancelFunc
	ended  chan struct{} // closed when it has ended
	how    error         // it did; set before ended is closed
}

// start starts the program of a provider with an environment, and shakes hands with it
// for as long as ctx allows. The process outlives ctx.
func start(ctx context.Context, program string, env []string, now time.Time) (_ *process, err error) {
	certificate, text, err := ownCertificate(now)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(life, program) //nolint:gosec // it is the caller's to say what is run
	cmd.Env = append(append([]string(nil), env...), cookieName+"="+cookieValue, "PLUGIN_PROTOCOL_VERSIONS=5,6",
		"PLUGIN_MIN_PORT=10000", "PLUGIN_MAX_PORT=25000", "PLUGIN_CLIENT_CERT="+string(text))
	p := &process{output: &output{}, kill: kill, ended: make(chan struct{})}
	cmd.WaitDelay = stopGrace // what it started may have its stdout
	stdout, to := io.Pipe()
	cmd.Stdout, cmd.Stderr = to, p.output
	if err := cmd.Start(); err != nil {
		kill()
		return nil, fmt.Errorf("starting the provider: %w", err)
	}
	go func() {
		p.how = cmd.Wait()
		_ = to.CloseWithError(io.EOF)
		close(p.ended)
	}()
	defer func() {
		if err != nil {
			p.kill()
			<-p.ended
		}
	}()
	said, err := p.firstLine(ctx, stdout)
	if err != nil {
		return nil, err
	}
	h, err := parseHandshake(said)
	if err != nil {
		return nil, fmt.Errorf("the provider cannot be talked to: %w", err)
	}
	p.names, p.rpc = versions()[h.version], newRPC(h, certificate)
	go p.follow(life)
	return p, nil
}

// firstLine reads the line with which a provider says where it is, and has what comes
// after it kept.
func (p *process) firstLine(ctx context.Context, stdout io.Reader) (string, error) {
	type read struct {
		line string
		err  error
	}
	first := make(chan read, 1)
	go func() {
		in := bufio.NewReaderSize(stdout, maxHandshake)
		line, err := in.ReadSlice('\n')
		first <- read{string(line), err}
		_, _ = io.Copy(p.output, in)
	}()
	select {
	case r := <-first:
		switch {
		case r.err == nil:
			return r.line, nil
		case errors.Is(r.err, bufio.ErrBufferFull):
			return "", fmt.Errorf("the provider cannot be talked to: its first line has more than %d bytes", maxHandshake)
		}
		_, _ = io.WriteString(p.output, r.line)
		<-p.ended
		return "", p.crash()
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for the first line of the provider: %w", context.Cause(ctx))
	}
}

// follow keeps what a provider writes after the handshake, which it sends as messages. A
// provider that nobody reads from would wait.
func (p *process) follow(ctx context.Context) {
	_ = p.rpc.stream(ctx, "plugin.GRPCStdio", "StreamStdio", nil, func(data []byte) error {
		return eachField(data, func(f field) error {
			if f.number == 2 {
				_, _ = p.output.Write(f.bytes)
			}
			return nil
		})
	})
}

// crash is the error of what ended.
func (p *process) crash() error {
	how := "it exited with 0"
	if p.how != nil {
		how = p.how.Error()
	}
	return &CrashError{How: how, Output: p.output.String()}
}

// dead reports whether it has ended.
func (p *process) dead() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// call makes a call of the provider. When the process ends meanwhile, that is the error.
func (p *process) call(ctx context.Context, method string, request message) ([]byte, error) {
	answer, err := p.rpc.call(ctx, p.names.service, method, request)
	var status *statusError
	if err == nil || errors.As(err, &status) && status.code != unavailable {
		return answer, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s was ended: %w", method, context.Cause(ctx))
	}
	// The connection broke; a process that is ending has a moment to do so.
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil, p.crash()
	case <-timer.C:
		return nil, fmt.Errorf("calling %s of the provider: %w", method, err)
	}
}

// close ends the process.
func (p *process) close() {
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	if !p.dead() && p.names.service != "" {
		_, _ = p.rpc.call(ctx, "plugin.GRPCController", "Shutdown", nil)
		select {
		case <-p.ended:
		case <-ctx.Done():
		}
	}
	p.kill()
	<-p.ended
	p.rpc.close()
}
