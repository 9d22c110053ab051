package apply

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/report"
)

func numbers(events []Observed) (all []int64) {
	for _, o := range events {
		all = append(all, o.N)
	}
	return all
}

// What is recorded is shown to whoever begins to follow, however late; of what is not, and of
// which there may be any amount, the newest.
func TestWhatIsKeptOfARunIsBounded(t *testing.T) {
	s := newServed("01JZ", "run/a.yaml", make(chan struct{}))
	s.Observe(report.Event{Kind: report.RunStarted})
	const lines = 5000
	for range lines {
		s.Observe(report.Event{Kind: report.Line, Text: strings.Repeat("x", 2000)})
	}
	s.Observe(report.Event{Kind: report.ActionStarted})
	events, _, _ := s.After(0)
	n := len(events)
	assert.True(t, n <= maxNews/2000+2 && n >= maxNews/2/(2000+newsSize), "%d events are kept", n)
	assert.True(t, events[0].Event.Kind == report.RunStarted && events[1].N != 2 &&
		events[len(events)-1].N == lines+2, "%v", numbers(events))
	if events, _, _ := s.After(lines); len(events) != 2 || events[0].N != lines+1 {
		t.Errorf("behind the last but two are %v", numbers(events))
	}
	events, _, _ = s.After(1 << 40)
	assert.Empty(t, events, "behind all")
}

func TestWhoFollowsIsToldThatThereIsMore(t *testing.T) {
	s := newServed("01JZ", "run/a.yaml", make(chan struct{}))
	_, more, ended := s.After(0)
	require.False(t, isClosed(more))
	require.False(t, ended)
	s.Observe(report.Event{Kind: report.RunStarted})
	_, next, ended := s.After(1)
	assert.True(t, isClosed(more) && !isClosed(next) && !ended, "it is not told of one, or of more than one")
	s.end(nil)
	if events, _, ended := s.After(0); !isClosed(next) || !ended || len(events) != 1 {
		t.Errorf("at the end it is told of %v, and of the end: %v", numbers(events), ended)
	}
	s.Stop()
	s.Stop() // by whoever else
}

func TestHowARunEndedIsSaid(t *testing.T) {
	problems := []manifest.Problem{{Path: "a", Message: "why"}}
	invalid := &manifest.Error{Problems: problems}
	for name, c := range map[string]struct {
		err            error
		begun, planned bool
		want           Outcome
		why            string
		listed         int
	}{
		"done":                       {nil, true, false, Succeeded, "", 0},
		"failed":                     {&failure.Error{Causes: []error{errors.New("why")}}, true, false, Failed, "", 0},
		"failed, of what was wrong":  {&failure.Error{Causes: []error{invalid}}, true, false, Failed, "", 0},
		"refused":                    {invalid, true, false, Refused, "", 0},
		"stopped":                    {runner.ErrInterrupted, true, false, Interrupted, "", 0},
		"not recorded":               {errors.New("the disk is full"), true, false, Failed, "the disk is full", 0},
		"planned in part":            {&failure.Error{Causes: []error{errors.New("why")}}, false, true, Failed, "", 0},
		"not planned, for it cannot": {invalid, false, false, Refused, "", 1},
		"not planned":                {errors.New("no engine"), false, false, Failed, "no engine", 0},
		"planning was stopped":       {runner.ErrInterrupted, false, false, Interrupted, "", 0},
	} {
		s := newServed("01JZ", "run/a.yaml", make(chan struct{}))
		if c.begun {
			s.Observe(report.Event{Kind: report.RunStarted})
		}
		if c.planned {
			s.keep(&planned{})
		}
		s.end(c.err)
		got := s.Result()
		assert.True(t, got.Outcome == c.want && got.Why == c.why && len(got.Problems) == c.listed, "%s: %+v", name, got)
	}
}
