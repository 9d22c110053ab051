package reconcile

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

const (
	beatPause = 2 * time.Second // between heartbeats

	// silence is after how long without a heartbeat a loop is said to be silent: longer than
	// a pass may take, and than a machine is busy.
	silence = 15 * time.Second
)

// heart records that the goroutine of a loop goes on. Without one, because the log keeps
// none or its directory cannot be written to, there is only less to explain.
type heart struct {
	deploylog.Heart
	host string
	last time.Time
}

func (h *heart) start(log deploylog.Log) {
	if keeps, ok := log.(deploylog.HeartbeatLog); ok {
		h.Heart, _ = keeps.Heart()
		h.host, _ = os.Hostname()
	}
}

func (h *heart) stop() {
	if h.Heart != nil {
		h.Stop()
	}
}

// beat records a heartbeat when it is time for one.
func (l *Loop[S, K]) beat() {
	if l.heart.Heart == nil || time.Since(l.heart.last) < beatPause {
		return
	}
	l.heart.last = time.Now()
	serves, all := l.Scope.named()
	if all {
		serves = nil
	}
	_ = l.heart.Beat(deploylog.Heartbeat{
		Kind: l.Fold.One, Role: l.Role, PID: os.Getpid(), Host: l.heart.host, Serves: serves, Controls: slices.Sorted(maps.Keys(l.own.controlled)),
	})
}

// Silent says for how long whoever controls an entity has recorded no heartbeat, so that
// nothing happens although its lock is held; "" where it goes on, or that is not known.
func (f *Fold[S]) Silent(name string) (text string) {
	var last deploylog.Heartbeat
	for _, h := range f.heartbeats() {
		if slices.Contains(h.Controls, name) && h.Last.After(last.Last) {
			last = h
		}
	}
	// One from the future says nothing: a clock was set back, or a file's time forward.
	quiet := time.Since(last.Last).Truncate(time.Second)
	if last.Last.IsZero() || quiet < silence {
		return ""
	}
	return fmt.Sprintf("%s has recorded no heartbeat for %s", who(last), quiet)
}

// Others says who is at work on what is not an entity; "" is nobody.
func (f *Fold[S]) Others(name string) string {
	var all []string
	for _, h := range f.heartbeats() {
		if h.Serves != nil && !slices.Contains(h.Serves, name) {
			all = append(all, fmt.Sprintf("%s serves %s", who(h), few(h.Serves)))
		}
	}
	return few(all)
}

// Apart reports whether different loops control two entities, as far as heartbeats tell.
func (f *Fold[S]) Apart(a, b string) bool {
	var one, other bool
	for _, h := range f.heartbeats() {
		switch hasA, hasB := slices.Contains(h.Controls, a), slices.Contains(h.Controls, b); {
		case hasA && hasB:
			return false
		default:
			one, other = one || hasA, other || hasB
		}
	}
	return one && other
}

// heartbeats are those of the loops that control entities of the kind.
func (f *Fold[S]) heartbeats() []deploylog.Heartbeat {
	keeps, ok := f.log.(deploylog.HeartbeatLog)
	if !ok {
		return nil
	}
	all, _ := keeps.Heartbeats()
	return slices.DeleteFunc(all, func(h deploylog.Heartbeat) bool { return h.Kind != f.One })
}

// who names a process. What is in a heartbeat was written by others, and is as long as it likes.
func who(h deploylog.Heartbeat) string {
	return fmt.Sprintf("the %.20s, process %d on %.64s,", h.Role, h.PID, h.Host)
}

func few(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
