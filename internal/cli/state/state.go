// Package state holds the commands for what is remembered of resources from one run to the
// next.
package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/managed"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/phrase"
)

// NewCommand returns the commands.
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "state",
		Short: "List, show and forget what the log knows of resources",
		Long: `Show and forget what the types of resources have kept of them, such as ids that
only the world gives, and which the types are given back in each run. What is
forgotten is no longer known to be made by a run, either.`,
	}
	c.AddCommand(NewListCommand(a), showCommand(a), forgetCommand(a))
	return c
}

func showCommand(a *app.App) *cobra.Command {
	var manifests []string
	c := &cobra.Command{
		Use:   "show RESOURCE",
		Short: "Show what is kept of a resource",
		Long: `Show what is kept of a resource, its id, and whether its last action was
interrupted. Of what may hold secrets only the names are shown.

A resource that is on a host of a pipeline or an environment is named with its
place, as in the log: db@host1. If several manifests have a resource of the name,
each is shown; --manifest names one, by a file or by its name. The file may be gone.`,
		Example: `  deployster state show disk
  deployster state show disk --manifest web.yaml
  deployster state show disk --output json`,
		Args: arguments.Named("a resource"),
		RunE: func(c *cobra.Command, args []string) error {
			return with(c.Context(), a, func(ctx context.Context, m runs.Memory) error { return show(ctx, a, m, args[0], manifests) })
		},
	}
	registerManifests(c, &manifests)
	return c
}

func forgetCommand(a *app.App) *cobra.Command {
	var manifests []string
	c := &cobra.Command{
		Use:   "forget RESOURCE",
		Short: "Forget what is kept of a resource, and that it was made",
		Long: `Forget what is kept of a resource, and that a run made it. What is there stays, and is
nobody's: its type no longer finds it by what was kept, so the next apply may make it
anew, and where it is no longer declared nothing is said of it, and --prune does not
remove it, nor does the end of the task that made it. "deployster adopt" takes it over again.

It is refused while a run works on the resource. If several manifests have a
resource of the name, --manifest says which one, by a file or by its name.`,
		Example: `  deployster state forget disk
  deployster state forget disk --manifest web.yaml`,
		Args: arguments.Named("a resource"),
		RunE: func(c *cobra.Command, args []string) error {
			return with(c.Context(), a, func(ctx context.Context, m runs.Memory) error { return forget(ctx, a, m, args[0], manifests) })
		},
	}
	registerManifests(c, &manifests)
	return c
}

// with has something done with the memory of the workspace.
func with(ctx context.Context, a *app.App, do func(context.Context, runs.Memory) error) error {
	if err := a.Local(); err != nil {
		return err
	}
	return interrupt.Within(ctx, func(ctx context.Context) error {
		return a.WithLog(ctx, func(log deploylog.Log, _ string) error {
			return do(ctx, runs.Memory{Log: log, Protected: a.Protected()})
		})
	})
}

func show(ctx context.Context, a *app.App, m runs.Memory, resource string, manifests []string) error {
	things, err := find(ctx, a, m, resource, manifests)
	if err != nil {
		return err
	}
	if len(things) == 0 {
		return showOne(ctx, a, m, resource, nil, false)
	}
	if len(things) > 1 && a.JSON() {
		return several(resource, things)
	}
	return a.Sections("", len(things), func(i int) error {
		if len(things) > 1 {
			if err := a.Printf("%s of %s:\n", resource, things[i].Owner()); err != nil {
				return err
			}
		}
		return showOne(ctx, a, m, resource, things[i], len(manifests) > 0)
	})
}

// showOne shows what is kept of a resource; t is nil where no run is known to have made it. With of the document
// says of which manifest it is.
func showOne(ctx context.Context, a *app.App, m runs.Memory, resource string, t *runs.Thing, of bool) error {
	thing := ""
	if t != nil {
		thing = t.ID
	}
	known, err := m.Recorded(ctx, resource, thing)
	if err != nil {
		return err
	}
	id := known.ID
	document := map[string]any{
		"resource": resource, "id": id, "interrupted": known.Interrupted, "kept": known.Shown, "protected": known.Kept.Protected != nil,
	}
	if of && t != nil {
		document["manifest"] = t.Owner().String()
	}
	text := "nothing is kept of it"
	if !known.Kept.None() {
		document["since"], document["run"] = known.Since, known.Run
		var kept bytes.Buffer
		encoder := json.NewEncoder(&kept)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(known.Shown); err != nil {
			return fmt.Errorf("writing what is kept of %s: %w", resource, err)
		}
		text = fmt.Sprintf("kept since %s by run %s:\n%s", phrase.Moment(known.Since), known.Run, strings.TrimSpace(kept.String()))
	}
	if known.Interrupted {
		text = "how its last action ended is not known\n" + text
	}
	return a.Show(document, func() error { return a.Printf("%s\n%s\n", id, text) })
}

func forget(ctx context.Context, a *app.App, m runs.Memory, resource string, manifests []string) error {
	things, err := find(ctx, a, m, resource, manifests)
	if err != nil {
		return err
	}
	if len(things) > 1 {
		return several(resource, things)
	}
	var of *runs.Owner
	thing := ""
	if len(things) == 1 {
		owner := things[0].Owner()
		of, thing = &owner, things[0].ID
	}
	forgotten, err := m.Forget(ctx, a.NewID(), resource, of, runs.Who())
	switch {
	case errors.Is(err, deploylog.ErrLocked):
		return fmt.Errorf("forgetting %s: a run works on it (%w): try again when that has ended", resource, err)
	case err != nil:
		return err
	case forgotten == runs.Forgotten{}:
		if _, err := m.Recorded(ctx, resource, thing); err != nil {
			return fmt.Errorf("forgetting %s: %w", resource, err)
		}
	}
	text := "forgot what was kept of %s"
	switch {
	case forgotten.Made != "" && forgotten.Kept:
		text = "forgot what was kept of %s, and that run " + forgotten.Made + " made it; what is there stays"
	case forgotten.Made != "":
		text = "forgot that run " + forgotten.Made + " made %s; what is there stays"
	case !forgotten.Kept:
		text = "nothing was kept of %s, and no run is known to have made it"
	}
	return a.Say(map[string]any{"resource": resource, "forgotten": forgotten != (runs.Forgotten{}), "made_by": forgotten.Made}, text, resource)
}

// registerManifests adds the flag that says of which manifest a resource is.
func registerManifests(c *cobra.Command, into *[]string) {
	c.Flags().StringArrayVar(into, "manifest", nil, "of this manifest: a file, or its name (repeatable)")
}

// find returns what manifests have of a resource: of each one thing, or of the one that is named.
func find(ctx context.Context, a *app.App, m runs.Memory, resource string, manifests []string) (things []*runs.Thing, err error) {
	history, err := runs.ReadHistory(ctx, m.Log, work.Recorded(m.Log, engines.Machine()))
	if err != nil {
		return nil, err
	}
	all, err := history.Named(ctx, resource)
	if err != nil {
		return nil, err
	}
	for _, t := range slices.Backward(all) {
		known := slices.ContainsFunc(things, func(other *runs.Thing) bool { return other.Of(t.Owner()) })
		if len(t.Manifest) > 0 && !known && (!t.Deposed || !hasCurrent(all, t)) {
			things = append(things, t)
		}
	}
	slices.SortStableFunc(things, func(a, b *runs.Thing) int { return strings.Compare(a.Owner().String(), b.Owner().String()) })
	if len(manifests) == 0 {
		return things, nil
	}
	named := slices.DeleteFunc(slices.Clone(things), func(t *runs.Thing) bool {
		return slices.ContainsFunc(manifests, func(manifest string) bool { return !managed.IsOf(t, manifest, a.Workspace) })
	})
	exactly := slices.DeleteFunc(slices.Clone(named), func(t *runs.Thing) bool { return len(t.Manifest) != len(manifests) })
	switch {
	case len(exactly) == 1:
		return exactly, nil
	case len(named) > 0:
		return named, nil
	case len(things) == 0:
		return nil, exit.Usage("no run of %s made %s; \"deployster list\" lists what runs made", strings.Join(manifests, " "), resource)
	}
	return nil, exit.Usage("no run of %s made %s; runs of %s did", strings.Join(manifests, " "), resource, owners(things))
}

// hasCurrent reports whether the manifest of a thing that was replaced has another one of the name by now.
func hasCurrent(all []*runs.Thing, t *runs.Thing) bool {
	return slices.ContainsFunc(all, func(other *runs.Thing) bool { return !other.Deposed && other.Of(t.Owner()) })
}

// several refuses a name that resources of several manifests have.
func several(resource string, things []*runs.Thing) error {
	return exit.Usage("%s is a resource of several manifests: %s; say which with --manifest FILE", resource, owners(things))
}

func owners(things []*runs.Thing) string {
	names := make([]string, 0, len(things))
	for _, t := range things {
		names = append(names, t.Owner().String())
	}
	return phrase.List(names)
}
