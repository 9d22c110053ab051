package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	tailLines = 40 // of what a failed test printed
	slowest   = 10
)

// event is a line of go test -json (go doc test2json).
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a package that does not compile
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// key names a test of a package; a key without a test is the package.
type key struct{ pkg, test string }

type timing struct {
	key
	took time.Duration
}

type failure struct {
	step step
	key
}

// report collects the events of all steps. Its methods may be called concurrently.
type report struct {
	mu      sync.Mutex
	out     io.Writer
	tails   map[key][]string // the last lines of what runs
	parents map[key]bool     // tests with a subtest
	lost    map[key]bool     // tests with a failed subtest, packages with a failed test
	tests   map[string]int   // ended tests by package
	timings []timing
	fails   []failure
	passed  int
	skipped int
}

func newReport(out io.Writer) *report {
	return &report{out: out, tails: map[key][]string{}, parents: map[key]bool{}, lost: map[key]bool{}, tests: map[string]int{}}
}

// read takes the events of a step until its output ends.
func (r *report) read(s step, events io.Reader) error {
	decoder := json.NewDecoder(events)
	for {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the events of go test: %w", err)
		}
		r.take(s, e)
	}
}

func (r *report) take(s step, e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key{e.Package, e.Test}
	if e.Package == "" {
		k.pkg, _, _ = strings.Cut(e.ImportPath, " ") // "PACKAGE [PACKAGE.test]"
	}
	switch e.Action {
	case "output", "build-output":
		r.keep(k, e.Output)
	case "run":
		if parent, ok := k.parent(); ok {
			r.parents[parent] = true
		}
	case "pass", "skip":
		delete(r.tails, k)
		r.ended(s, k, e)
	case "fail":
		r.fail(s, k, e)
		r.ended(s, k, e)
	}
}

// keep appends to the last lines of a test. The lines with which go test frames tests say nothing.
func (r *report) keep(k key, line string) {
	text := strings.TrimSpace(line)
	for _, frame := range []string{"=== RUN", "=== PAUSE", "=== CONT", "=== NAME", "--- PASS", "--- FAIL", "PASS", "FAIL", "ok  \t"} {
		if strings.HasPrefix(text, frame) {
			return
		}
	}
	tail := append(r.tails[k], line)
	if len(tail) > tailLines {
		tail = slices.Clone(tail[len(tail)-tailLines:])
	}
	r.tails[k] = tail
}

// fail prints the failure of a test, or of a package in which no test failed: one that does not
// compile, panics or hangs. The tests above a failed subtest are printed if they say more.
func (r *report) fail(s step, k key, e event) {
	tail := r.tails[k]
	delete(r.tails, k)
	if r.lost[k] && (k.test == "" || len(tail) == 0) {
		r.loses(k)
		return
	}
	if k.test == "" {
		if e.FailedBuild != "" {
			build, _, _ := strings.Cut(e.FailedBuild, " ")
			tail = append(r.tails[key{pkg: build}], tail...)
		}
		for running, lines := range r.tails { // what panicked, or did not end
			if running.pkg == k.pkg && running.test != "" {
				tail = append(append(tail, "in "+running.test+":\n"), lines...)
			}
		}
	}
	r.loses(k)
	r.fails = append(r.fails, failure{s, k})
	fmt.Fprintf(r.out, "FAIL %s\n", strings.TrimSpace(local(k.pkg)+" "+k.test))
	for _, line := range tail[max(0, len(tail)-tailLines):] {
		fmt.Fprint(r.out, "    ", line)
		if !strings.HasSuffix(line, "\n") {
			fmt.Fprintln(r.out)
		}
	}
}

// loses marks what is above a failed test.
func (r *report) loses(k key) {
	for parent, ok := k.parent(); ok; parent, ok = parent.parent() {
		r.lost[parent] = true
	}
	if k.test != "" {
		r.lost[key{pkg: k.pkg}] = true
	}
}

// ended counts what has ended, and prints a line for a package.
func (r *report) ended(s step, k key, e event) {
	took := time.Duration(e.Elapsed * float64(time.Second))
	if k.test == "" {
		verdict := "ok  "
		if e.Action == "fail" {
			verdict = "FAIL"
		}
		race := ""
		if s.race {
			race = ", race detector"
		}
		fmt.Fprintf(r.out, "%s %6.1fs  %s (%d tests%s)\n", verdict, e.Elapsed, local(k.pkg), r.tests[k.pkg], race)
		return
	}
	if r.parents[k] {
		return
	}
	r.tests[k.pkg]++
	r.timings = append(r.timings, timing{k, took})
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped++
		fmt.Fprintf(r.out, "SKIP %s %s\n", local(k.pkg), k.test)
	}
}

// fault records that go test ended without saying which package failed.
func (r *report) fault(s step, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(r.out, "FAIL go test:", err)
	for _, p := range s.packages {
		r.fails = append(r.fails, failure{s, key{pkg: p.dir}})
	}
}

func (r *report) failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.fails)
}

func (r *report) failed() bool { return r.failures() > 0 }

// finish prints the slowest tests, the commands that repeat the failures, and the totals.
func (r *report) finish(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(r.timings, func(a, b timing) int { return cmp.Compare(b.took, a.took) })
	fmt.Fprintln(r.out, "\nSlowest tests:")
	for _, t := range r.timings[:min(slowest, len(r.timings))] {
		fmt.Fprintf(r.out, "  %6.1fs  %s %s\n", t.took.Seconds(), local(t.pkg), t.test)
	}
	if len(r.fails) > 0 {
		fmt.Fprintln(r.out, "\nRepeat what failed:")
		for _, f := range r.fails {
			fmt.Fprintln(r.out, "  "+f.step.repeat(local(f.pkg), f.test))
		}
	}
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\nTotal: %s\n", r.passed, len(r.fails), r.skipped, took.Round(time.Second))
}

// parent returns the test or package of which k is a subtest.
func (k key) parent() (key, bool) {
	at := strings.LastIndexByte(k.test, '/')
	if at < 0 {
		return key{}, false
	}
	return key{k.pkg, k.test[:at]}, true
}

const module = "github.com/deployster-go/deployster/"

// local returns the directory of a package below the module.
func local(path string) string { return strings.TrimPrefix(path, module) }
