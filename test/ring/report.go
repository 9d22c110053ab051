package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
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
	skips   bool // whether a test may skip
	outputs map[key]*printed
	running map[key]bool    // tests that have begun and not ended; false is that they wait for others
	parents map[key]bool    // tests with a subtest
	lost    map[key]bool    // tests with a failed subtest, packages with a failed test
	tests   map[string]int  // ended tests by package
	done    map[string]bool // packages that have ended
	timings []timing
	fails   []failure
	passed  int
	skipped int
}

// printed is what a test or package printed, as far as a failure needs it.
type printed struct {
	tail  []string // the last lines
	crash []string // the first lines from a crash on: those after it are of other goroutines
}

func newReport(out io.Writer, skips bool) *report {
	return &report{
		out: out, skips: skips, outputs: map[key]*printed{}, running: map[key]bool{}, parents: map[key]bool{}, lost: map[key]bool{},
		tests: map[string]int{}, done: map[string]bool{},
	}
}

// read takes the events of a step until its output ends.
func (r *report) read(s step, events io.Reader) error {
	decoder := json.NewDecoder(events)
	for {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			_, _ = io.Copy(io.Discard, events) // go test waits until all is read
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
	case "run", "cont":
		r.running[k] = true
		if parent, ok := k.parent(); ok {
			r.parents[parent] = true
		}
	case "pause":
		r.running[k] = false
	case "pass", "skip", "fail":
		delete(r.running, k)
		switch {
		case e.Action == "fail" && k.test == "":
			r.failPackage(s, k, e)
		case e.Action == "fail":
			r.failTest(s, k)
		case e.Action == "skip" && k.test != "":
			r.skip(s, k)
		}
		delete(r.outputs, k)
		r.ended(s, k, e)
	}
}

// frames are the lines with which go test frames tests. They say nothing.
var frames = regexp.MustCompile(`^(=== (RUN|PAUSE|CONT|NAME) .*|\s*--- (PASS|FAIL|SKIP): .*|PASS|FAIL|FAIL\t.*|ok  \t.*|exit status \d+)$`)

// crashes are the lines with which a program or the race detector begins to say why it ends.
var crashes = regexp.MustCompile(`^\s*(panic: |fatal error: |WARNING: DATA RACE)`)

// keep adds a line to the output of a test.
func (r *report) keep(k key, line string) {
	if frames.MatchString(strings.TrimRight(line, "\n")) {
		return
	}
	o := r.outputs[k]
	if o == nil {
		o = &printed{}
		r.outputs[k] = o
	}
	if len(o.crash) < tailLines && (len(o.crash) > 0 || crashes.MatchString(line)) {
		o.crash = append(o.crash, line)
	}
	if o.tail = append(o.tail, line); len(o.tail) > tailLines {
		o.tail = slices.Clone(o.tail[len(o.tail)-tailLines:])
	}
}

// lines returns what a failure shows of the output of a test.
func (r *report) lines(k key) []string {
	switch o := r.outputs[k]; {
	case o == nil:
		return nil
	case len(o.crash) > 0:
		return o.crash
	default:
		return o.tail
	}
}

// failTest prints the failure of a test. One above a failed subtest is printed only if it says more.
func (r *report) failTest(s step, k key) {
	lines := r.lines(k)
	if !r.lost[k] || len(lines) > 0 {
		r.print(s, k, lines)
	}
	r.loses(k)
}

// failPackage prints the failure of a package that its tests do not explain: it does not compile,
// it crashes, or a test hangs. The tests that had not ended are named.
func (r *report) failPackage(s step, k key, e event) {
	var unended, waiting []key
	for t, active := range r.running {
		switch {
		case t.pkg != k.pkg || t.test == "" || r.parents[t] && r.anyBelow(t):
		case active:
			unended = append(unended, t)
		default:
			waiting = append(waiting, t)
		}
	}
	maps.DeleteFunc(r.running, func(t key, _ bool) bool { return t.pkg == k.pkg }) // only now: a parent is not named beside its subtests
	if len(unended) == 0 {
		unended = waiting
	}
	slices.SortFunc(unended, func(a, b key) int { return cmp.Compare(a.test, b.test) })
	for _, t := range unended {
		r.print(s, t, append([]string{"it did not end\n"}, r.lines(t)...))
	}
	lines := r.lines(k)
	if e.FailedBuild != "" {
		build, _, _ := strings.Cut(e.FailedBuild, " ")
		lines = append(slices.Clone(r.lines(key{pkg: build})), lines...)
	}
	if crashed := r.outputs[k] != nil && len(r.outputs[k].crash) > 0; crashed || len(unended) == 0 && !r.lost[k] {
		r.print(s, k, lines)
	}
}

// anyBelow reports whether a subtest of a test has not ended.
func (r *report) anyBelow(k key) bool {
	for t := range r.running {
		if t.pkg == k.pkg && strings.HasPrefix(t.test, k.test+"/") {
			return true
		}
	}
	return false
}

// skip names a test that skips, and why. Where no test may skip that is a failure.
func (r *report) skip(s step, k key) {
	why := "no reason"
	if lines := r.lines(k); len(lines) > 0 {
		why = strings.TrimSpace(lines[len(lines)-1])
	}
	if r.skips {
		fmt.Fprintf(r.out, "SKIP %s %s: %s\n", local(k.pkg), k.test, why)
		return
	}
	r.print(s, k, []string{"it was skipped: " + why + "\n"})
}

// print prints a failure and remembers it.
func (r *report) print(s step, k key, lines []string) {
	r.fails = append(r.fails, failure{s, k})
	fmt.Fprintf(r.out, "FAIL %s\n", strings.TrimSpace(local(k.pkg)+" "+k.test))
	for _, line := range lines {
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
		r.done[local(k.pkg)] = true
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
	}
}

// fault records that go test ended without saying how these packages did.
func (r *report) fault(s step, dirs []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "FAIL go test did not test %s: %v\n", strings.Join(dirs, " "), err)
	for _, dir := range dirs {
		r.fails = append(r.fails, failure{s, key{pkg: dir}})
	}
}

// untested returns the packages of a step that have not ended.
func (r *report) untested(s step) (dirs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range s.packages {
		if !r.done[p.dir] {
			dirs = append(dirs, p.dir)
		}
	}
	return dirs
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
