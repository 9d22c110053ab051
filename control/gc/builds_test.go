package gc_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/gc"
)

// group records a group with how it ended, and makes a log of a job of it.
func (p *place) group(name, id string, ago time.Duration, events ...string) {
	p.Helper()
	for attempt, event := range append([]string{record.GroupTriggered}, events...) {
		e, err := record.New(id, record.Group(id), event, attempt+1, record.Triggered{Name: name})
		if err == nil {
			_, err = p.log.Append(p.Context(), e)
		}
		if err != nil {
			p.Fatal(err)
		}
	}
	p.built(id+"/12.1.log", ago)
}

// built makes a file of a job.
func (p *place) built(name string, ago time.Duration) {
	p.Helper()
	at, file := p.now.Add(-ago), filepath.Join(p.dir, "builds", name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("0123456789"), 0o600), os.Chtimes(file, at, at)); err != nil {
		p.Fatal(err)
	}
	if filepath.Base(filepath.Dir(filepath.Dir(file))) == "work" { // what is in the directory of a job
		if err := os.Chtimes(filepath.Dir(file), at, at); err != nil {
			p.Fatal(err)
		}
	}
}

func (p *place) builtFiles() (names []string) {
	p.Helper()
	root := filepath.Join(p.dir, "builds")
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(root, path)
			names = append(names, rel)
		}
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
	return names
}

func TestLogsOfOldBuildGroupsAreRemoved(t *testing.T) {
	p := newPlace(t)
	if _, there := p.collect(30*day, false)[gc.Builds]; there {
		t.Error("something is said of builds, and there are none")
	}
	p.group("base", "base-1", 300*day, record.GroupFinished)
	p.group("base", "base-2", 300*day) // it waits, or its dispatcher died
	p.group("base", "base-3", 300*day, record.GroupFailed, record.GroupRetried)
	p.group("work/x", "work/x-1", 300*day, record.GroupCanceled)
	for _, id := range []string{"base-4", "base-5", "base-6", "base-7", "base-8"} {
		p.group("base", id, 200*day, record.GroupFinished)
	}
	p.built("base-1/13.2.log", 299*day)
	p.built("base-1/14.1.log", 29*day)
	p.built("base-1/notes.txt", 300*day)
	p.built("12.1.log", 300*day)
	p.built("work/base-1~12.1/out/f", 300*day)
	p.built("work/base-1~13.1.result", 300*day)
	p.built("work/base-2~12.1.result", 300*day)
	p.built("gone-1/1.1.log", 31*day)
	p.built("gone-2/1.1.log", 6*day)
	p.built("work/core~gone-1~1.1/begun.json", 300*day)

	// Of all times of directories only that of a job's own counts.
	if err := os.Chtimes(filepath.Join(p.dir, "builds", "work", "base-1~12.1"), p.now.Add(-300*day), p.now.Add(-300*day)); err != nil {
		t.Fatal(err)
	}
	before := p.builtFiles()
	dry := p.collect(30*day, true)[gc.Builds]
	if got := p.builtFiles(); !slices.Equal(got, before) {
		t.Errorf("a dry run removed something: %q", got)
	}
	if r := p.collect(30*day, false)[gc.Builds]; r.Count != 6 || r.Bytes != 60 || dry.Count != 6 || dry.Bytes != 60 {
		t.Errorf("removed %+v, and would have %+v", r, dry)
	}
	want := []string{
		"12.1.log", "base-1/14.1.log", "base-1/notes.txt", "base-2/12.1.log", "base-3/12.1.log", "base-4/12.1.log", "base-5/12.1.log",
		"base-6/12.1.log", "base-7/12.1.log", "base-8/12.1.log", "gone-2/1.1.log", "work/base-2~12.1.result", "work/x-1/12.1.log",
	}
	if got := p.builtFiles(); !slices.Equal(got, want) {
		t.Errorf("left is\n%q, want\n%q", got, want)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "builds", "gone-1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty directory stays: %v", err)
	}
}
