package docker

import (
	"testing"
	"testing/synctest"
	"time"
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
				if got := shortage(heard).happened(c.code); got != c.lacked || time.Since(began) != c.took {
					t.Errorf("%v after %s, want %v after %s", got, time.Since(began), c.lacked, c.took)
				}
			})
		})
	}
	if shortage(nil).happened(killed) {
		t.Error("a container without a limit lacked memory")
	}
}
