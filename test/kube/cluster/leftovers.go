package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// removeLeftovers removes what clusters left whose program was killed.
func removeLeftovers() error {
	dirs, err := filepath.Glob("/tmp/" + prefix + "*")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		held, err := lock(dir)
		if err != nil {
			continue // it is in use
		}
		p := &place{Dir: dir, lock: held}
		if encoded, err := os.ReadFile(p.file("place.json")); err == nil {
			_ = json.Unmarshal(encoded, p)
		}
		p.Dir, p.lock = dir, held
		if err := p.remove(); err != nil {
			return err
		}
	}
	return nil
}

// remove puts everything in order that has no namespace.
func (p *place) remove() error {
	var all []error
	for name, value := range p.Settings {
		if now, err := os.ReadFile("/proc/sys/" + name); err == nil && string(now) != value+"\n" {
			all = append(all, os.WriteFile("/proc/sys/"+name, []byte(value), 0o600))
		}
	}
	for _, dir := range p.Made {
		_ = os.Remove(dir) // unless somebody else uses it by now
	}
	all = append(all, p.removeGroups(), os.RemoveAll(p.Dir), p.lock.Close())
	return errors.Join(all...)
}

// groups are the directories of the nodes' control groups, one of each in each hierarchy.
func (p *place) groups() ([]string, error) {
	hierarchies := []string{"/sys/fs/cgroup"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		entries, err := os.ReadDir("/sys/fs/cgroup")
		if err != nil {
			return nil, err
		}
		hierarchies = nil
		for _, entry := range entries {
			if entry.IsDir() {
				hierarchies = append(hierarchies, filepath.Join("/sys/fs/cgroup", entry.Name()))
			}
		}
	}
	var all []string
	for _, hierarchy := range hierarchies {
		for _, n := range p.nodes() {
			all = append(all, filepath.Join(hierarchy, n.group()))
		}
	}
	return all, nil
}

// makeGroups makes the control groups below which kubelets make those of Pods.
func (p *place) makeGroups() error {
	groups, err := p.groups()
	for _, group := range groups {
		err = errors.Join(err, os.MkdirAll(group, 0o755))
		for _, inherited := range []string{"cpuset.cpus", "cpuset.mems"} {
			if value, e := os.ReadFile(filepath.Join(filepath.Dir(group), inherited)); e == nil {
				_ = os.WriteFile(filepath.Join(group, inherited), value, 0o600)
			}
		}
	}
	return err
}

// removeGroups removes control groups, the innermost first. The kernel lets a group go
// a moment after the last process in it has ended.
func (p *place) removeGroups() error {
	groups, err := p.groups()
	for _, group := range groups {
		var inner []string
		_ = filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				inner = append(inner, path)
			}
			return nil
		})
		for i := len(inner) - 1; i >= 0; i-- {
			err = errors.Join(err, removeGroup(inner[i]))
		}
	}
	return err
}

func removeGroup(group string) error {
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Rmdir(group)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) || time.Since(begun) > 10*time.Second {
			return &fs.PathError{Op: "rmdir", Path: group, Err: err}
		}
	}
}
