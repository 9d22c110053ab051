package docker

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/stretchr/testify/assert"
)

// Docker reports a lack of memory with a delay, which on a busy machine
// is seconds after the end.
func TestALackOfMemoryThatIsToldOfAfterTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		lacks  bool // whether memory was lacking
		after  time.Duration
		lacked bool
		took   time.Duration
	}{
		"of a container that was killed":            {code: killed, lacks: true, after: 2 * time.Second, lacked: true, took: 2 * time.Second},
		"of one that was killed on request":         {code: killed, after: time.Second, took: time.Second},
		"of one of which nobody knows who did it":   {code: killed, lacks: true, after: time.Hour, took: oomTimeoutKilled},
		"of one that ended by itself":               {lacks: true, after: time.Millisecond, lacked: true, took: time.Millisecond},
		"of one that ended by itself, but too late": {lacks: true, after: time.Second, took: oomTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				result := make(chan bool, 1)
				timer := time.AfterFunc(c.after, func() { result <- c.lacks })
				defer timer.Stop()
				began := time.Now()
				if got := oomWatch(result).happened(t.Context(), c.code); got != c.lacked || time.Since(began) != c.took {
					t.Errorf("%v after %s, want %v after %s", got, time.Since(began), c.lacked, c.took)
				}
			})
		})
	}
	assert.True(t, !oomWatch(nil).happened(t.Context(), killed), "a container without a limit lacked memory")
}

// An interrupted run does not wait for what Docker may still report.
func TestTheWaitForALackOfMemoryIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if oomWatch(make(chan bool)).happened(ctx, killed) || time.Since(began) != time.Second {
			t.Errorf("it took %s", time.Since(began))
		}
	})
}

func TestWhichEventTellsOfALackOfMemory(t *testing.T) {
	signal := func(number string) events.Message {
		return events.Message{Action: events.ActionKill, Actor: events.Actor{Attributes: map[string]string{"signal": number}}}
	}
	lack, removed := events.Message{Action: events.ActionOOM}, events.Message{Action: events.ActionDestroy}
	for name, c := range map[string]struct {
		events []events.Message
		want   bool
	}{
		"it lacks memory":                     {[]events.Message{lack}, true},
		"after a signal that it outlives":     {[]events.Message{signal("15"), lack}, true},
		"it is killed, and what follows":      {[]events.Message{signal("9"), lack}, false},
		"it is removed":                       {[]events.Message{removed}, false},
		"the events end":                      {nil, false},
		"nothing more, after a small signal ": {[]events.Message{signal("1")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			messages, failed := make(chan events.Message), make(chan error)
			go func() {
				for _, m := range c.events {
					select {
					case messages <- m:
					case <-t.Context().Done():
					}
				}
				select {
				case failed <- io.EOF:
				case <-t.Context().Done():
				}
			}()
			if got, err := awaitOOM(t.Context(), messages, failed); got != c.want || err != nil && !errors.Is(err, io.EOF) {
				t.Errorf("lacked memory: %v, %v", got, err)
			}
		})
	}
}
