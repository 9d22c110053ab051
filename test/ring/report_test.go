package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// told returns what the report prints for the events of one step.
func told(t *testing.T, events ...string) string {
	t.Helper()
	var out strings.Builder
	r := newReport(&out, true)
	require.NoError(t, r.read(step{race: true}, strings.NewReader(strings.Join(events, "\n"))))
	r.finish(90 * time.Second)
	return out.String()
}

func TestAFailureIsPrintedWhenItHappensAndRepeatedAtTheEnd(t *testing.T) {
	t.Setenv("RAPID_SEED", "")
	assert.Equal(t, `FAIL a TestB/sub
    a_test.go:7: broken
FAIL    2.0s  a (2 tests, race detector)

Slowest tests:
     1.5s  a TestA
     0.5s  a TestB/sub

Repeat what failed:
  go test -count=1 -race -run '^TestB$/^sub$' ./a

1 passed, 1 failed, 0 skipped
Total: 1m30s
`, told(t,
		`{"Action":"run","Package":"a","Test":"TestA"}`,
		`{"Action":"output","Package":"a","Test":"TestA","Output":"=== RUN   TestA\n"}`,
		`{"Action":"output","Package":"a","Test":"TestA","Output":"all is well\n"}`,
		`{"Action":"pass","Package":"a","Test":"TestA","Elapsed":1.5}`,
		`{"Action":"run","Package":"a","Test":"TestB"}`,
		`{"Action":"run","Package":"a","Test":"TestB/sub"}`,
		`{"Action":"output","Package":"a","Test":"TestB/sub","Output":"a_test.go:7: broken\n"}`,
		`{"Action":"output","Package":"a","Test":"TestB/sub","Output":"    --- FAIL: TestB/sub (0.50s)\n"}`,
		`{"Action":"fail","Package":"a","Test":"TestB/sub","Elapsed":0.5}`,
		`{"Action":"output","Package":"a","Test":"TestB","Output":"--- FAIL: TestB (0.50s)\n"}`,
		`{"Action":"fail","Package":"a","Test":"TestB","Elapsed":0.5}`,
		`{"Action":"output","Package":"a","Output":"FAIL\n"}`,
		`{"Action":"fail","Package":"a","Elapsed":2}`,
	))
}

func TestOnlyTheLastLinesOfAFailureArePrinted(t *testing.T) {
	events := []string{`{"Action":"run","Package":"a","Test":"TestA"}`}
	for i := range 100 {
		events = append(events, fmt.Sprintf(`{"Action":"output","Package":"a","Test":"TestA","Output":"line %d\n"}`, i))
	}
	text := told(t, append(events, `{"Action":"fail","Package":"a","Test":"TestA"}`)...)
	assert.NotContains(t, text, "line 59\n")
	assert.Contains(t, text, "FAIL a TestA\n    line 60\n")
	assert.Contains(t, text, "line 99\n")
}

func TestAPackageThatFailsWithoutATestSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct{ events, wants []string }{
		"it does not compile": {
			[]string{
				`{"ImportPath":"a [a.test]","Action":"build-output","Output":"# a [a.test]\n"}`,
				`{"ImportPath":"a [a.test]","Action":"build-output","Output":"./a.go:3:1: syntax error\n"}`,
				`{"ImportPath":"a [a.test]","Action":"build-fail"}`,
				`{"Action":"output","Package":"a","Output":"FAIL\ta [build failed]\n"}`,
				`{"Action":"fail","Package":"a","FailedBuild":"a [a.test]"}`,
			},
			[]string{"FAIL a\n    # a [a.test]\n    ./a.go:3:1: syntax error\n", "go test -count=1 -race ./a\n"},
		},
		"a test panics": {
			[]string{
				`{"Action":"run","Package":"a","Test":"TestA"}`,
				`{"Action":"output","Package":"a","Test":"TestA","Output":"panic: at the disco\n"}`,
				`{"Action":"fail","Package":"a"}`,
			},
			[]string{"FAIL a TestA\n    it did not end\n    panic: at the disco\n", "0 passed, 1 failed, 0 skipped\n", "-run '^TestA$' ./a\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, want := range tc.wants {
				assert.Contains(t, told(t, tc.events...), want)
			}
		})
	}
}

func TestASkippedTestIsNamed(t *testing.T) {
	events := []string{
		`{"Action":"run","Package":"a","Test":"TestA"}`,
		`{"Action":"output","Package":"a","Test":"TestA","Output":"    a_test.go:3: no root\n"}`,
		`{"Action":"skip","Package":"a","Test":"TestA"}`,
	}
	text := told(t, events...)
	assert.Contains(t, text, "SKIP a TestA: a_test.go:3: no root\n")
	assert.Contains(t, text, "0 passed, 0 failed, 1 skipped\n")

	var out strings.Builder
	inCI := newReport(&out, false)
	require.NoError(t, inCI.read(step{}, strings.NewReader(strings.Join(events, "\n"))))
	assert.Contains(t, out.String(), "FAIL a TestA\n    it was skipped: a_test.go:3: no root\n")
	assert.True(t, inCI.failed())
}

// A test fails, and another one hangs: both are named, with the beginning of the crash.
func TestAHangAfterAFailureIsNotLost(t *testing.T) {
	events := []string{
		`{"Action":"run","Package":"a","Test":"TestA"}`,
		`{"Action":"fail","Package":"a","Test":"TestA"}`,
		`{"Action":"run","Package":"a","Test":"TestB"}`,
		`{"Action":"run","Package":"a","Test":"TestB/waits"}`,
		`{"Action":"pause","Package":"a","Test":"TestB/waits"}`,
		`{"Action":"run","Package":"a","Test":"TestB/hangs"}`,
		`{"Action":"output","Package":"a","Test":"TestB/hangs","Output":"panic: test timed out after 30m\n"}`,
	}
	for i := range 100 {
		events = append(events, fmt.Sprintf(`{"Action":"output","Package":"a","Test":"TestB/hangs","Output":"goroutine %d\n"}`, i))
	}
	text := told(t, append(events, `{"Action":"fail","Package":"a","Elapsed":1800}`)...)
	assert.Contains(t, text, "FAIL a TestB/hangs\n    it did not end\n    panic: test timed out after 30m\n    goroutine 0\n")
	assert.NotContains(t, text, "TestB/waits")
	assert.Contains(t, text, "0 passed, 2 failed")
}

// What testscript says of a failure begins like a frame of go test.
func TestTheReasonOfAScriptIsPrinted(t *testing.T) {
	assert.Contains(t, told(t,
		`{"Action":"run","Package":"a","Test":"TestA"}`,
		`{"Action":"output","Package":"a","Test":"TestA","Output":"        FAIL: testdata/a.txtar:12: no match\n"}`,
		`{"Action":"fail","Package":"a","Test":"TestA"}`,
	), "FAIL a TestA\n            FAIL: testdata/a.txtar:12: no match\n")
}

func TestPackagesThatWereNotTestedAreFailures(t *testing.T) {
	var out strings.Builder
	r := newReport(&out, true)
	s := step{packages: []pkg{{dir: "a"}, {dir: "b"}}}
	require.NoError(t, r.read(s, strings.NewReader(`{"Action":"pass","Package":"a"}`)))
	assert.Equal(t, []string{"b"}, r.untested(s))
	r.fault(s, r.untested(s), errors.New("signal: killed"))
	assert.Equal(t, "ok      0.0s  a (0 tests)\nFAIL go test did not test b: signal: killed\n", out.String())
	assert.True(t, r.failed())
}

func TestBrokenEventsAreAnError(t *testing.T) {
	err := newReport(&strings.Builder{}, true).read(step{}, strings.NewReader("{"))
	assert.ErrorContains(t, err, "read the events of go test")
}
