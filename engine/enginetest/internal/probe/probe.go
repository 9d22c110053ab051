// Package probe is the program that the engine suite runs in containers. It
// does what its arguments say, one verb and its operands, and so
// shows what an engine does to a process:
//
//	cat                copy stdin to stdout
//	exit N             end with code N, reading nothing
//	read-exit N        write a line, read one byte of stdin, or its end, then end with code N
//	print N            write N bytes; without N, write until writing fails
//	both N             write N lines to stdout and to stderr in turn
//	hang               write a line, then wait to be killed
//	args ARG…          write the arguments as a JSON list
//	env                write the environment as a JSON list
//	cwd                write the working directory
//	user               write UID:GID
//	read PATH          write a file's content
//	write PATH TEXT    write TEXT to a file
//	save PATH          read stdin, and write to a file how many bytes that were, and a line's end
//	die                die by SIGKILL, as far as anybody outside can see
//	after ARG…         write a line, read one byte of stdin, or its end, then do as ARG… say
//	(others)           see Process.Native
//
// Run is a function of its surroundings, so that an engine without processes
// can run it, too. What only a process of its own can do is for Process.Native.
package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Process is what surrounds a running program.
type Process struct {
	Args   []string // without the program's own name
	Env    []string
	Dir    string
	User   string // UID:GID
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer

	ReadFile  func(path string) ([]byte, error)
	WriteFile func(path string, content []byte) error
	Die       func() int // kills the process; where that can't be, the code to end with

	// Native does what the verb says on the process itself; known is false for
	// a verb that it does not have. It is nil where there is no process.
	Native func(verb string, operands []string) (code int, known bool, err error)
}

// Usage is the code with which the probe refuses its arguments.
const Usage = 64

// Failed is the code with which the probe ends when it cannot do as its arguments say; the
// reason is on stderr.
const Failed = 65

// Run does what the arguments say and returns the exit code. It returns early
// when ctx is done.
func Run(ctx context.Context, p Process) int {
	verb, operands := "", []string(nil)
	if len(p.Args) > 0 {
		verb, operands = p.Args[0], p.Args[1:]
	}
	code, err := run(ctx, p, verb, operands)
	if err != nil {
		_, _ = fmt.Fprintf(p.Stderr, "probe: %s: %v\n", verb, err)
	}
	return code
}

func run(ctx context.Context, p Process, verb string, operands []string) (int, error) {
	number := func() int {
		if len(operands) == 0 {
			return -1
		}
		n, err := strconv.Atoi(operands[0])
		if err != nil {
			return -1
		}
		return n
	}
	switch verb {
	case "cat":
		_, err := io.Copy(p.Stdout, p.Stdin)
		return status(err)
	case "exit":
		return number(), nil
	case "read-exit":
		_, _ = fmt.Fprintln(p.Stdout, "reading")
		_, _ = p.Stdin.Read(make([]byte, 1))
		return number(), nil
	case "after":
		if len(operands) == 0 {
			return Usage, errors.New("after wants a verb")
		}
		_, _ = fmt.Fprintln(p.Stdout, "reading")
		_, _ = p.Stdin.Read(make([]byte, 1))
		return run(ctx, p, operands[0], operands[1:])
	case "print":
		return status(printBytes(p.Stdout, number()))
	case "both":
		return status(printBoth(p.Stdout, p.Stderr, number()))
	case "hang":
		_, _ = fmt.Fprintln(p.Stdout, "hanging")
		<-ctx.Done()
		return Failed, ctx.Err()
	case "die":
		return p.Die(), nil
	case "write":
		if len(operands) != 2 {
			return Usage, fmt.Errorf("wants a path and a text, not %q", operands)
		}
		return status(p.WriteFile(operands[0], []byte(operands[1])))
	}
	if known, err := show(p, verb, operands); known {
		return status(err)
	}
	if p.Native != nil {
		if code, known, err := p.Native(verb, operands); known {
			return code, err
		}
	}
	return Usage, fmt.Errorf("no such verb; arguments %q", p.Args)
}

// show does what a verb says of the process itself, its files and its input; known
// is false for any other verb.
func show(p Process, verb string, operands []string) (known bool, err error) {
	switch verb {
	case "args":
		err = json.NewEncoder(p.Stdout).Encode(operands)
	case "env":
		err = json.NewEncoder(p.Stdout).Encode(p.Env)
	case "cwd":
		_, err = fmt.Fprint(p.Stdout, p.Dir)
	case "user":
		_, err = fmt.Fprint(p.Stdout, p.User)
	case "read":
		var content []byte
		if content, err = p.ReadFile(strings.Join(operands, " ")); err == nil {
			_, err = p.Stdout.Write(content)
		}
	case "save":
		var content []byte
		if content, err = io.ReadAll(p.Stdin); err == nil {
			err = p.WriteFile(strings.Join(operands, " "), fmt.Appendln(nil, len(content)))
		}
	default:
		return false, nil
	}
	return true, err
}

func status(err error) (int, error) {
	if err != nil {
		return Failed, err
	}
	return 0, nil
}

// printBytes writes n bytes, or without end for a negative n.
func printBytes(w io.Writer, n int) error {
	chunk := bytes.Repeat([]byte("0123456789abcdef"), 2048)
	for n != 0 {
		if n > 0 && n < len(chunk) {
			chunk = chunk[:n]
		}
		written, err := w.Write(chunk)
		if err != nil {
			return err
		}
		if n > 0 {
			n -= written
		}
	}
	return nil
}

func printBoth(stdout, stderr io.Writer, lines int) error {
	for i := range lines {
		if _, err := fmt.Fprintf(stdout, "out %d\n", i); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(stderr, "err %d\n", i); err != nil {
			return err
		}
	}
	return nil
}
