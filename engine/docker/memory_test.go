package docker

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/moby/api/types/events"
)

// Docker tells of a lack of memory when it comes to that, which on a busy machine
// is seconds after the end.
func TestALackOfMemoryThatIsToldOfAfterTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		tells  bool // whether memory was lacking
		after  time.Duration
		lacked bool
		took   time.Duration
	}{
		"of a container that was killed":            {code: killed, tells: true, after: 2 * time.Second, lacked: true, took: 2 * time.Second},
		"of one that was killed on request":         {code: killed, after: time.Second, took: time.Second},
		"of one of which nobody knows who did it":   {code: killed, tells: true, after: time.Hour, took: belatedKilled},
		"of one that ended by itself":               {tells: true, after: time.Millisecond, lacked: true, took: time.Millisecond},
		"of one that ended by itself, but too late": {tells: true, after: time.Second, took: belated},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				heard := make(chan bool, 1)
				timer := time.AfterFunc(c.after, func() { heard <- c.tells })
				defer timer.Stop()
				began := time.Now()
				if got := shortage(heard).happened(t.Context(), c.code); got != c.lacked || time.Since(began) != c.took {
					t.Errorf("%v after %s, want %v after %s", got, time.Since(began), c.lacked, c.took)
				}
			})
		})
	}
	if shortage(nil).happened(t.Context(), killed) {
		t.Error("a container without a limit lacked memory")
	}
}

// Who interrupts a run does not wait for what Docker may still tell.
func TestTheWaitForALackOfMemoryIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if shortage(make(chan bool)).happened(ctx, killed) || time.Since(began) != time.Second {
			t.Errorf("it took %s", time.Since(began))
		}
	})
}

func TestWhichEventTellsOfALackOfMemory(t *testing.T) {
	signal := func(number string) events.Message {
		return events.Message{Action: events.ActionKill, Actor: events.Actor{Attributes: map[string]string{"signal": number}}}
	}
	lack, gone := events.Message{Action: events.ActionOOM}, events.Message{Action: events.ActionDestroy}
	for name, c := range map[string]struct {
		told []events.Message
		want bool
	}{
		"it lacks memory":                     {[]events.Message{lack}, true},
		"after a signal that it outlives":     {[]events.Message{signal("15"), lack}, true},
		"it is killed, and what follows":      {[]events.Message{signal("9"), lack}, false},
		"it is removed":                       {[]events.Message{gone}, false},
		"nothing more can be told":            {nil, false},
		"nothing more, after a small signal ": {[]events.Message{signal("1")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			messages, failed := make(chan events.Message), make(chan error)
			go func() {
				for _, m := range c.told {
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
			if got, err := heardOfLack(t.Context(), messages, failed); got != c.want || err != nil && !errors.Is(err, io.EOF) {
				t.Errorf("lacked memory: %v, %v", got, err)
			}
		})
	}
}
