// Package scope says what of a log somebody may read who does not read everything: the pipelines and environments that
// their grants name.
package scope

import (
	"context"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	environment "github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/identity"
	pipeline "github.com/deployster-go/deployster/pipeline/record"
)

// Target reports whether somebody may read events of a target. Those of runs, build groups and tokens are of no
// pipeline and of no environment.
func Target(who identity.Identity, t deploylog.Target) bool {
	if who.ReadsAll() {
		return true
	}
	if name, ok := pipeline.NameOf(t); ok {
		return who.May(identity.Viewer, identity.Pipelines, name)
	}
	name, ok := environment.NameOf(t)
	return ok && who.May(identity.Viewer, identity.Environments, name)
}

// Rows are those that somebody may read, who is in the context.
func Rows[T any](ctx context.Context, kind string, rows []T, name func(T) string) []T {
	who := identity.Of(ctx)
	if who.ReadsAll() {
		return rows
	}
	return slices.DeleteFunc(slices.Clone(rows), func(row T) bool { return !who.May(identity.Viewer, kind, name(row)) })
}

// Named tells answers to those who read some from answers to others.
func Named(ctx context.Context) string {
	if who := identity.Of(ctx); !who.ReadsAll() {
		return who.Reads()
	}
	return ""
}

// Heartbeat is what somebody may read of a heartbeat.
func Heartbeat(who identity.Identity, h deploylog.Heartbeat) (_ deploylog.Heartbeat, ok bool) {
	if who.ReadsAll() {
		return h, true
	}
	kind := map[string]string{"pipeline": identity.Pipelines, "environment": identity.Environments}[h.Kind]
	hidden := func(name string) bool { return !who.May(identity.Viewer, kind, name) }
	all := h.Serves == nil
	h.Serves, h.Controls = slices.DeleteFunc(slices.Clone(h.Serves), hidden), slices.DeleteFunc(slices.Clone(h.Controls), hidden)
	return h, kind != "" && (all || len(h.Serves) > 0)
}

// Kind is the kind of grants that is needed to read what is of a kind; "" is that it is for those who read
// everything.
func Kind(kind string) string {
	switch kind {
	case "environments":
		return identity.Environments
	case "pipelines", "promotions":
		return identity.Pipelines
	}
	return ""
}
