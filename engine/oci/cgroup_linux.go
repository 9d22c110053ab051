package oci

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// cgroups knows where control groups are mounted: one hierarchy, or with
// version 1 one for each controller.
type cgroups struct {
	mounted []string
	hidden  []string // a hierarchy of version 2 beside those, which bounds nothing: crun gives up at it
	memory  string   // of the hierarchy that bounds memory, or ""
	unified bool     // memory is bounded by version 2
	none    bool     // no hierarchy is mounted at all
}

// findCgroups reads the mount table.
func findCgroups() (cgroups, error) {
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return cgroups{}, fmt.Errorf("find control groups: %w", err)
	}
	defer func() { _ = table.Close() }()
	var c cgroups
	var second []string
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		mount, kind := strings.Fields(before), strings.Fields(after)
		if len(mount) < 5 || len(kind) < 3 {
			continue
		}
		at := mount[4]
		switch kind[0] {
		case "cgroup":
			c.mounted = append(c.mounted, at)
			if slices.Contains(strings.Split(kind[2], ","), "memory") {
				c.memory, c.unified = at, false
			}
		case "cgroup2":
			second = append(second, at)
			if c.memory == "" && boundsMemory(at) {
				c.memory, c.unified = at, true
			}
		}
	}
	c.none = len(c.mounted) == 0 && len(second) == 0
	if c.unified {
		c.mounted = append(c.mounted, second...)
	} else {
		c.hidden = second
	}
	return c, lines.Err()
}

func boundsMemory(at string) bool {
	controllers, err := os.ReadFile(filepath.Join(at, "cgroup.controllers"))
	return err == nil && slices.Contains(strings.Fields(string(controllers)), "memory")
}

// countsSwap reports whether memory bounds can include swap.
func (c cgroups) countsSwap() bool {
	if c.unified {
		return true
	}
	_, err := os.Stat(filepath.Join(c.memory, "memory.memsw.limit_in_bytes"))
	return err == nil
}

// killedForMemory reports whether the kernel killed a process of the container for
// lack of memory.
func (c cgroups) killedForMemory(id string) (bool, error) {
	name := "memory.oom_control"
	if c.unified {
		name = "memory.events"
	}
	content, err := os.ReadFile(filepath.Join(c.memory, cgroupOf(id), name))
	if err != nil {
		return false, fmt.Errorf("look whether memory was lacking: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strings.TrimSpace(count) != "0", nil
		}
	}
	return false, nil
}

// settling is how long a cgroup may take to notice that its processes are gone.
const settling = 5 * time.Second

// remove removes the container's cgroups. Its processes are gone.
func (c cgroups) remove(id string) error {
	deadline := time.Now().Add(settling)
	for _, hierarchy := range c.mounted {
		group := filepath.Join(hierarchy, cgroupOf(id))
		for {
			err := syscall.Rmdir(group)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
				return fmt.Errorf("remove control group %s: %w", group, err)
			}
			<-time.After(time.Millisecond)
		}
	}
	return nil
}
