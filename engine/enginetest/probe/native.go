//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/engine/enginetest/internal/probe"
)

// native does what shows how the kernel treats the process:
//
//	identity           write UID, GID, ids of all groups, and HOME as a JSON object
//	connect ADDRESS    connect to a TCP address
//	allocate N         use N bytes of memory
//	child ARG…         run the probe with ARG… as a child, and end with code 0 however that ended,
//	                   once another byte of stdin, or its end, was read
//	mknod PATH         make a block device
//	journal PATH N     append "begin" and the size of stdin to a file, write N lines to stdout and stderr,
//	                   a hundredth of a second apart, append "end" to the file, and end with code 7
//	fork N             make N processes that stay until this one ends, or as many as may be; write how many
func native(verb string, operands []string) (code int, known bool, err error) {
	switch verb {
	case "identity":
		err = writeIdentity()
	case "connect":
		err = each(operands, connect)
	case "allocate":
		err = each(operands, allocate)
	case "child":
		err = runChild(operands)
	case "mknod":
		err = each(operands, func(path string) error { return syscall.Mknod(path, syscall.S_IFBLK|0o666, 7<<8) })
	case "fork":
		err = each(operands, forkMany)
	case "journal":
		if err = journal(operands); err == nil {
			return 7, true, nil
		}
	default:
		return 0, false, nil
	}
	if err != nil {
		return probe.Failed, true, err
	}
	return 0, true, nil
}

// journal tells apart programs that ran once, twice or not to their end.
func journal(operands []string) error {
	if len(operands) != 2 {
		return fmt.Errorf("wants a path and a number, not %q", operands)
	}
	lines, err := strconv.Atoi(operands[1])
	if err != nil {
		return err
	}
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(operands[0], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	fmt.Fprintln(file, "begin", len(input))
	for i := range lines {
		fmt.Fprintln(os.Stdout, "out", i)
		fmt.Fprintln(os.Stderr, "err", i)
		<-time.After(10 * time.Millisecond)
	}
	fmt.Fprintln(file, "end")
	return file.Close()
}

func each(operands []string, do func(string) error) error {
	for _, operand := range operands {
		if err := do(operand); err != nil {
			return err
		}
	}
	return nil
}

func writeIdentity() error {
	groups, err := syscall.Getgroups()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"uid": syscall.Getuid(), "gid": syscall.Getgid(), "groups": groups, "home": os.Getenv("HOME"),
	})
}

func connect(address string) error {
	connection, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return err
	}
	return connection.Close()
}

func allocate(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	used := bytes.Repeat([]byte{1}, n)
	_, err = fmt.Fprint(os.Stdout, len(used))
	return err
}

// runChild writes how the child ended.
func runChild(arguments []string) error {
	child := exec.Command("/proc/self/exe", arguments...)
	var ended *exec.ExitError
	if err := child.Run(); err != nil && !errors.As(err, &ended) {
		return err
	}
	_, err := fmt.Fprint(os.Stdout, child.ProcessState)
	_, _ = os.Stdin.Read(make([]byte, 1))
	return err
}

// forkMany makes processes that end at once and count until they are waited
// for, which nobody does. It stays off the Go runtime, which would not survive
// the limit itself.
func forkMany(text string) error {
	wanted, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	made := 0
	for made < wanted {
		pid, _, failed := syscall.RawSyscall(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0)
		if failed != 0 {
			break
		}
		if pid == 0 {
			for {
				_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
			}
		}
		made++
	}
	_, err = fmt.Fprint(os.Stdout, made)
	return err
}
