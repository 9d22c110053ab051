package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/internal/entrypoint"
)

// process is a launcher as others know it. Process ids are used again; together
// with the time when it began, one means the same process for ever.
type process struct {
	PID   int
	Began string // in the kernel's ticks since the machine started
}

// identify describes a running process.
func identify(pid int) (process, error) {
	fields, err := statOf(pid)
	if err != nil {
		return process{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return process{PID: pid, Began: fields[beganField]}, nil
}

// Fields of /proc/PID/stat after the name, which may hold anything.
const (
	stateField   = 0
	threadsField = 17
	beganField   = 19
)

func statOf(pid int) ([]string, error) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) <= beganField {
		return nil, fmt.Errorf("%d fields of its state", len(fields))
	}
	return fields, nil
}

// ended reports whether the process, and so every process of its namespace, has
// ended. The last thread of a namespace's first process ends only after the kernel
// has seen the others off; its first thread may be a zombie long before.
func (p process) ended() bool {
	fields, err := statOf(p.PID)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	}
	dead := fields[stateField] == "Z" || fields[stateField] == "X"
	alone := fields[threadsField] == "0" || fields[threadsField] == "1"
	return fields[beganField] != p.Began || dead && alone
}

// kill kills the process if it is still the launcher it was, of the container
// with this id.
func (p process) kill(id string) error {
	found, err := os.FindProcess(p.PID) // holds on to it, whatever becomes of the id
	if err == nil {
		defer func() { _ = found.Release() }()
	}
	if p.ended() || !isLauncher(p.PID, id) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the launcher, process %d: %w", p.PID, err)
	}
	if err := found.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the launcher, process %d: %w", p.PID, err)
	}
	return nil
}

// isLauncher reports whether a process is a launcher, or the runtime of this container,
// which the launcher of an older version became. One that is already dying does not count.
func isLauncher(pid int, id string) bool {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	args := strings.Split(string(content), "\x00")
	return err == nil && (args[0] == entrypoint.LauncherName || slices.Contains(args, id))
}

// poll repeats so until it holds. What it is used for is done by other processes,
// which notify nobody.
func poll(ctx context.Context, so func() (bool, error)) error {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if is, err := so(); is || err != nil {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}
