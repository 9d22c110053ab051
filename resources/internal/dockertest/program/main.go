// Command program is what the containers of the tests run: a few small
// behaviours, chosen by its arguments.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"serve"}
	}
	switch args[0] {
	case "serve": // until it is told to stop
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		<-stop
	case "exit": // with a code, after some last words
		_, _ = fmt.Fprintln(os.Stdout, "these are the last words")
		code, err := strconv.Atoi(args[1])
		if err != nil {
			code = 99
		}
		os.Exit(code)
	case "print":
		_, _ = fmt.Fprintln(os.Stdout, strings.Join(args[1:], " "))
	case "complain":
		_, _ = fmt.Fprintln(os.Stderr, strings.Join(args[1:], " "))
	case "flood":
		_, _ = io.CopyN(os.Stdout, zeros{}, 1<<20)
	case "env":
		_, _ = fmt.Fprintln(os.Stdout, os.Getenv(args[1]))
	case "where":
		dir, err := os.Getwd()
		_, _ = fmt.Fprintln(os.Stdout, dir, os.Getuid(), err)
	case "exists":
		if _, err := os.Stat(args[1]); err != nil { //nolint:gosec // the tests say which file
			os.Exit(1)
		}
		_, _ = fmt.Fprintf(os.Stdout, `{"found": %q}`+"\n", args[1])
	case "create":
		f, err := os.Create(args[1]) //nolint:gosec // the tests say which file
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = fmt.Fprintln(os.Stdout, "created", args[1])
		_ = f.Close()
	case "remove":
		if err := os.Remove(args[1]); err != nil { //nolint:gosec // the tests say which file
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		os.Exit(98)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}
