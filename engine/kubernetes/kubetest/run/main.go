// Run runs a command with a cluster, which ends with it:
//
//	run PROGRAMS COMMAND [ARGUMENT…]
//
// PROGRAMS is the directory with the programs of the module test/kube. The command finds the
// cluster in its environment (kubetest.Variable), and there is a registry for it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: run PROGRAMS COMMAND [ARGUMENT…]")
		os.Exit(2)
	}
	err := run(os.Args[1], os.Args[2:])
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() > 0 {
		os.Exit(ended.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

func run(programs string, command []string) (err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	begun := time.Now()
	cluster, err := kubetest.Start(programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	fmt.Fprintf(os.Stderr, "the cluster was ready after %s\n", time.Since(begun).Round(100*time.Millisecond))
	for address, handler := range map[string]http.Handler{cluster.Registry: newRegistry(), cluster.Private: guarded(newRegistry())} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
		defer func() { _ = server.Close() }()
		go func() { _ = server.Serve(listener) }()
	}
	where, err := json.Marshal(cluster)
	if err != nil {
		return err
	}
	return attend(command, append(os.Environ(), kubetest.Variable+"="+string(where)), signals)
}

func newRegistry() http.Handler {
	return registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, 0)))
}

// guarded lets only those through who know the password.
func guarded(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != kubetest.User || password != kubetest.Password {
			w.Header().Set("WWW-Authenticate", `Basic realm="tests"`)
			http.Error(w, `{"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// stopTime is what a command that is to end has for that.
const stopTime = 10 * time.Second

// attend runs a command to its end. A signal is one for all processes that it has started, and
// what does not end of it is killed.
func attend(argv, env []string, signals <-chan os.Signal) error {
	command := exec.Command(argv[0], argv[1:]...) //nolint:gosec // what it runs is what it was called for
	command.Env, command.Stdout, command.Stderr = env, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	all := -command.Process.Pid
	var stopped <-chan time.Time
	for {
		select {
		case err := <-ended:
			if stopped != nil {
				_ = syscall.Kill(all, syscall.SIGKILL) // what it has started, and did not wait for
			}
			return err
		case received := <-signals:
			_ = syscall.Kill(all, received.(syscall.Signal)) //nolint:forcetypeassert // Linux has no others
			if stopped == nil {
				stopped = time.After(stopTime)
			}
		case <-stopped:
			_ = syscall.Kill(all, syscall.SIGKILL)
		}
	}
}
