package logs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/pipeline"
)

// logNames are the names that a log has or may have later.
type logNames struct {
	events  map[string]bool
	targets map[deploylog.Target]bool
}

// eventNames are those of all events that need no definition.
func eventNames() map[string]bool {
	names := map[string]bool{}
	for _, name := range slices.Concat(runs.EventNames(), environment.EventNames(), pipeline.EventNames()) {
		names[name] = true
	}
	return names
}

// namesIn reads a whole log.
func namesIn(ctx context.Context, log deploylog.Log) (logNames, error) {
	n := logNames{events: eventNames(), targets: map[deploylog.Target]bool{}}
	for e, err := range log.Read(ctx, deploylog.Filter{}) {
		if err != nil {
			return n, err
		}
		n.events[e.Name], n.targets[e.Target] = true, true
		if e.Name != pipeline.EventDefined {
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

// unknownFilter says so where a filter that selects nothing names an event or a
// target that there is not. What is followed may still get one.
func unknownFilter(ctx context.Context, a *app.App, log deploylog.Log, f deploylog.Filter, follow bool) error {
	if (f.Name == "" || eventNames()[f.Name]) && f.Target == "" {
		return nil
	}
	names, err := namesIn(ctx, log)
	if err != nil {
		return err
	}
	if f.Name != "" && !names.events[f.Name] {
		hint := didYouMean(suggest.Closest(f.Name, slices.Sorted(maps.Keys(names.events))))
		if !follow {
			return exit.Usage("--event %s: there is no such event%s", f.Name, cmp.Or(hint, "; deployster log list shows what there is"))
		}
		fmt.Fprintf(a.Err, "note: there is no event %s yet%s\n", output.PlainText(f.Name), hint)
	}
	if f.Target != "" && !names.has(f.Target) {
		fmt.Fprintf(a.Err, "note: nothing has happened to %s%s\n", output.PlainText(string(f.Target)), names.likeTarget(f.Target))
	}
	return nil
}

func (n logNames) has(t deploylog.Target) bool {
	if !strings.HasSuffix(string(t), "/") {
		return n.targets[t]
	}
	for known := range n.targets {
		if strings.HasPrefix(string(known), string(t)) {
			return true
		}
	}
	return false
}

// likeTarget asks whether another target was meant: one that is spelt alike, or
// all below this one.
func (n logNames) likeTarget(t deploylog.Target) string {
	if below := t + "/"; !strings.HasSuffix(string(t), "/") && n.has(below) {
		return didYouMean(string(below))
	}
	known, above := map[string]bool{}, map[string]bool{}
	for other := range n.targets {
		known[string(other)] = true
		for i, c := range string(other) {
			if c == '/' {
				above[string(other[:i+1])] = true
			}
		}
	}
	return didYouMean(cmp.Or(
		suggest.Closest(string(t), slices.Sorted(maps.Keys(known))),
		suggest.Closest(string(t), slices.Sorted(maps.Keys(above)))))
}

func didYouMean(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", output.PlainText(near))
}
