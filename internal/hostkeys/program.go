package hostkeys

import (
	"bytes"
	"context"
	"os/exec"
	"syscall"
	"time"
)

// run runs a program to its end and returns its output. The program has no terminal, so that it
// asks nothing. It ends with the context, and so does all that it has started.
func run(ctx context.Context, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second // a helper of ssh may hold its output open
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	err := c.Run()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return out.String(), failure(err, said.String())
	}
	return out.String(), nil
}
