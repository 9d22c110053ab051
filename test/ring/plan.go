package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// slow packages, slowest first. They begin first, or they would end last.
var slow = []string{
	"internal/cli", "examples", "docs", "internal/authoring", "engine/oci",
	"deploylog/sqlite", "internal/client", "resources/container", "deploylog/postgres", "control/promotions",
	"internal/pullrequest", "resources/network", "runner", "pipeline", "environment", "internal/query",
	"internal/cli/build", "internal/pages", "engine/docker", "engine/oci/internal/store",
}

// unchecked leaves out what the race detector checks besides races, of pointers, in a database that was
// translated from C. That took two fifths of the time of whatever reads a log.
const unchecked = "modernc.org/...=-d=checkptr=0"

// step is one call of go test.
type step struct {
	packages    []pkg
	race        bool
	environment []string
	timeout     string // after which a package counts as hanging
	parallel    int    // tests of a package at once; 0 is the number of processors
}

func (s step) arguments() []string {
	args := append([]string{"test", "-json"}, s.flags()...)
	args = append(args, "-vet=off")
	if s.race {
		args = append(args, "-gcflags="+unchecked)
	}
	if s.parallel > 0 {
		args = append(args, fmt.Sprintf("-parallel=%d", s.parallel))
	}
	for _, p := range s.packages {
		args = append(args, "./"+p.dir)
	}
	return args
}

// flags are those of which the result depends.
func (s step) flags() []string {
	flags := []string{"-count=1"}
	if s.timeout != "" {
		flags = append(flags, "-timeout="+s.timeout)
	}
	if s.race {
		flags = append(flags, "-race")
	}
	return flags
}

// repeat returns the command line that repeats a test, or all tests of a directory if test is empty.
func (s step) repeat(dir, test string) string {
	command := "go test"
	if seed := os.Getenv("RAPID_SEED"); seed != "" {
		command = "RAPID_SEED=" + seed + " " + command
	}
	for _, e := range slices.Backward(s.environment) {
		command = e + " " + command
	}
	for _, f := range s.flags() {
		command += " " + f
	}
	if test != "" {
		command += " -run " + quote(exact(test))
	}
	return command + " ./" + dir
}

// plan returns the lanes of a ring. Lanes run at once, the steps of a lane one after the other.
// Changed packages come first.
func plan(ring string, packages []pkg, changed map[string]bool) ([][]step, error) {
	slices.SortStableFunc(packages, func(a, b pkg) int { return rank(a) - rank(b) })
	kinds := func(kinds ...kind) (lane []step) {
		for _, isChanged := range []bool{true, false} {
			for _, k := range kinds {
				s := k.step
				for _, p := range packages {
					if k.has(p) && changed[p.dir] == isChanged {
						s.packages = append(s.packages, p)
					}
				}
				if len(s.packages) > 0 {
					lane = append(lane, s)
				}
			}
		}
		return lane
	}
	var (
		pure = kind{step{timeout: "15m"}, pkg.pure}
		// These packages wait for other processes most of the time.
		observers = kind{step{timeout: "30m", parallel: 4}, pkg.observer}
		racing    = kind{step{timeout: "30m", race: true}, func(p pkg) bool { return p.goroutines && !p.pure() && !p.observer() }}
		others    = kind{step{timeout: "30m"}, func(p pkg) bool { return !p.goroutines && !p.pure() && !p.observer() }}
		every     = kind{step{timeout: "12h", race: true, environment: []string{"DEPLOYSTER_TEST=all"}}, func(pkg) bool { return true }}
	)
	switch ring {
	case "check":
		return [][]step{kinds(pure)}, nil
	case "test":
		return [][]step{kinds(observers), kinds(pure, racing, others)}, nil
	case "all":
		return [][]step{kinds(every)}, nil
	}
	return nil, fmt.Errorf("unknown ring %q: check, test or all", ring)
}

// kind is which packages a step tests.
type kind struct {
	step step
	has  func(pkg) bool
}

// planned reports whether a step tests a package.
func planned(lanes [][]step, p pkg) bool {
	for _, s := range slices.Concat(lanes...) {
		if slices.ContainsFunc(s.packages, func(has pkg) bool { return has.dir == p.dir }) {
			return true
		}
	}
	return false
}

// rank orders packages by when they begin.
func rank(p pkg) int {
	if i := slices.Index(slow, p.dir); i >= 0 {
		return i
	}
	return len(slow)
}

// exact returns the pattern of -run for one test, "TestA/with spaces" being a subtest.
func exact(test string) string {
	var pattern string
	for i, name := range strings.Split(test, "/") {
		if i > 0 {
			pattern += "/"
		}
		pattern += "^" + regexp.QuoteMeta(name) + "$"
	}
	return pattern
}

// quote returns the text as one word of a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
