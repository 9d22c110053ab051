// Package script is the program that the tests of jobs run in containers: it does what its
// arguments say, one after the other, and so shows what a job can do to what is around it.
//
//	write PATH TEXT     write a file
//	append PATH TEXT    add to a file
//	copy FROM TO        copy a file
//	mkdir PATH          make directories
//	link PATH TARGET    make a symbolic link
//	fifo PATH           make a named pipe
//	chmod PATH MODE     set the mode, in octal
//	chown PATH ID       give it to a user and its group
//	size PATH BYTES     make a file as long as that, which takes no disk
//	many PATH N         make N files in a directory
//	fill PATH BYTES     write a file of so many bytes, or of as many as the disk takes
//	remove PATH         remove it, with all that is in it
//	print TEXT          print a line
//	bytes N             print N bytes without an end
//	any                 print every byte there is
//	lines N             print N lines
//	show PATH           print a file
//	list PATH           print the names in a directory
//	env NAME            print a variable
//	where               print the working directory
//	await PATH          wait until there is something
//	compute N           keep a processor busy with N hashes
//	hang                wait to be killed
//	exit N              end
package script

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is what surrounds a running program.
type Process struct {
	Lines          []string
	Env            []string
	Dir            string
	Stdout, Stderr io.Writer
	At             func(path string) (string, error) // a path of the container on this machine
}

// failed is the exit code where something cannot be done; the reason is on stderr.
const failed = 65

// Run does what the lines say and returns the exit code.
func Run(ctx context.Context, p Process) int {
	for _, line := range p.Lines {
		words := strings.SplitN(line, " ", 3)
		for len(words) < 3 {
			words = append(words, "")
		}
		if words[0] == "exit" {
			return number(words[1])
		}
		if err := p.do(ctx, words[0], words[1], words[2]); err != nil {
			_, _ = fmt.Fprintf(p.Stderr, "%s: %v\n", line, err)
			return failed
		}
	}
	return 0
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

func (p Process) do(ctx context.Context, verb, first, second string) error {
	if done, err := p.print(ctx, verb, first, second); done {
		return err
	}
	at, err := p.At(first)
	if err != nil {
		return err
	}
	switch verb {
	case "write":
		return os.WriteFile(at, []byte(second), 0o644) //nolint:gosec // as programs do
	case "append":
		f, err := os.OpenFile(at, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(second + "\n")
		return errors.Join(err, f.Close())
	case "copy":
		text, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		to, err := p.At(second)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644) //nolint:gosec // as programs do
	case "mkdir":
		return os.MkdirAll(at, 0o755) //nolint:gosec // as programs do
	case "link":
		return os.Symlink(second, at)
	case "fifo":
		return syscall.Mkfifo(at, 0o644)
	case "chown":
		return os.Lchown(at, number(second), number(second))
	case "chmod":
		mode, err := strconv.ParseUint(second, 8, 32)
		return errors.Join(err, os.Chmod(at, os.FileMode(mode)))
	case "size":
		return os.Truncate(at, int64(number(second)))
	case "fill":
		return fill(at, number(second))
	case "remove":
		return os.RemoveAll(at)
	case "many":
		for i := range number(second) {
			if err := os.WriteFile(filepath.Join(at, strconv.Itoa(i)), nil, 0o644); err != nil { //nolint:gosec // as programs do
				return err
			}
		}
		return nil
	default:
		return errors.New("no such verb")
	}
}

// fill writes a file, which has less where the disk is full.
func fill(at string, size int) error {
	f, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // as programs do
	if err != nil {
		return err
	}
	const page = 4 << 10
	for n := 0; n < size && err == nil; n += page {
		_, err = f.Write(make([]byte, page))
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// print does what a verb prints or waits for; done is false for any other verb.
func (p Process) print(ctx context.Context, verb, first, second string) (done bool, err error) {
	switch verb {
	case "print":
		_, err = fmt.Fprintln(p.Stdout, strings.TrimSuffix(first+" "+second, " "))
	case "bytes":
		_, err = io.WriteString(p.Stdout, strings.Repeat("x", number(first)))
	case "any":
		for c := range 256 {
			if _, err := p.Stdout.Write([]byte{byte(c)}); err != nil {
				return true, err
			}
		}
	case "lines":
		var all strings.Builder
		for i := range number(first) {
			fmt.Fprintf(&all, "line %d\n", i)
		}
		_, err = io.WriteString(p.Stdout, all.String())
	case "env":
		for _, v := range p.Env {
			if strings.HasPrefix(v, first+"=") {
				_, err = fmt.Fprintln(p.Stdout, v)
			}
		}
	case "where":
		_, err = fmt.Fprintln(p.Stdout, p.Dir)
	case "compute":
		var sum [sha256.Size]byte
		for range number(first) {
			sum = sha256.Sum256(sum[:])
		}
		_, err = fmt.Fprintf(p.Stdout, "%x\n", sum)
	case "hang":
		<-ctx.Done()
		err = ctx.Err()
	case "show", "list", "await":
		err = p.look(ctx, verb, first)
	default:
		return false, nil
	}
	return true, err
}

// look is what the verbs do that read files.
func (p Process) look(ctx context.Context, verb, path string) error {
	at, err := p.At(path)
	if err != nil {
		return err
	}
	switch verb {
	case "show":
		text, err := os.ReadFile(at)
		if err == nil {
			_, err = p.Stdout.Write(text)
		}
		return err
	case "list":
		entries, err := os.ReadDir(at)
		for _, e := range entries {
			_, err = fmt.Fprintln(p.Stdout, e.Name())
		}
		return err
	default:
		ticks := time.NewTicker(10 * time.Millisecond)
		defer ticks.Stop()
		for {
			if _, err := os.Lstat(at); err == nil {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-ticks.C:
			}
		}
	}
}
