package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	buildrecord "github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	envrecord "github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Names are the names that a log has or may have later.
type Names struct {
	events  map[string]bool
	targets map[string]bool
}

// EventNames are those of all events that need no definition.
func EventNames() map[string]bool {
	names := map[string]bool{}
	for _, name := range slices.Concat(runs.EventNames(), envrecord.EventNames(), record.EventNames(), buildrecord.EventNames()) {
		names[name] = true
	}
	return names
}

// NamesIn reads a whole log.
func NamesIn(ctx context.Context, log deploylog.Log) (Names, error) {
	n := Names{events: EventNames(), targets: map[string]bool{}}
	for e, err := range log.Read(ctx, deploylog.Filter{}) {
		if err != nil {
			return n, err
		}
		n.events[e.Name], n.targets[string(e.Target)] = true, true
		if e.Name != record.PipelineDefined {
			continue
		}
		_, name, _ := strings.Cut(string(e.Target), "/")
		s := pipeline.New(name)
		s.Apply(e)
		if d := s.Definition(); d != nil {
			for _, name := range d.EventNames() {
				n.events[name] = true
			}
		}
	}
	return n, nil
}

// HasEvent reports whether there is an event of that name, or may be one.
func (n Names) HasEvent(name string) bool { return n.events[name] }

// LikeEvent is the name that was meant by one that there is not; it may be empty.
func (n Names) LikeEvent(name string) string { return closest(name, n.events) }

// HasTarget reports whether anything has happened to a target, or below one that
// ends with a slash.
func (n Names) HasTarget(t deploylog.Target) bool {
	if !strings.HasSuffix(string(t), "/") {
		return n.targets[string(t)]
	}
	for known := range n.targets {
		if strings.HasPrefix(known, string(t)) {
			return true
		}
	}
	return false
}

// LikeTarget is another target that was meant: one that is spelt alike, or all below
// this one; it may be empty.
func (n Names) LikeTarget(t deploylog.Target) string {
	if below := t + "/"; !strings.HasSuffix(string(t), "/") && n.HasTarget(below) {
		return string(below)
	}
	above := map[string]bool{}
	for other := range n.targets {
		for i, c := range other {
			if c == '/' {
				above[other[:i+1]] = true
			}
		}
	}
	return cmp.Or(closest(string(t), n.targets), closest(string(t), above))
}

func closest(name string, known map[string]bool) string {
	return suggest.Closest(name, slices.Sorted(maps.Keys(known)))
}
