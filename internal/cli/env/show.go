package env

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/view"
)

func newListCommand(a *app.App) *cobra.Command {
	return arguments.AsOf(&cobra.Command{
		Use:     "list",
		Short:   "List the environments",
		Example: "  deployster env list",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, _ []string, at int64) error {
		return withEnvironments(ctx, a, nil, at, func(e *environmentSet) error {
			rows := [][]string{{"NAME", "REVISION", "STATUS", "DESIRED", "CURRENT", "HOSTS"}}
			list := []listedEnvironment{}
			for _, name := range e.names {
				_ = e.Ask(name, func(s *environment.State) error {
					l := listEnvironment(s)
					list = append(list, l)
					rows = append(rows, []string{name, strconv.Itoa(l.Revision), string(l.Status), strconv.Itoa(l.Desired), strconv.Itoa(l.Current), output.InLine(l.Query)})
					return nil
				})
			}
			return a.List(map[string]any{"environments": list}, "no environments", rows)
		})
	})
}

// listedEnvironment is an environment in machine-readable output.
type listedEnvironment struct {
	Name string `json:"environment"`
	environment.Row
	Query string `json:"query"`
}

// listEnvironment describes the active revision, or the newest where none is active.
func listEnvironment(s *environment.State) listedEnvironment {
	revisions := s.Revisions()
	shown := revisions[len(revisions)-1]
	if d, ok := s.ActiveDeployment(); ok {
		if r, err := s.Revision(d.Revision); err == nil {
			shown = r
		}
	}
	l := listedEnvironment{Name: s.Name(), Query: shown.Definition.InstanceGroup.Query}
	for _, row := range s.Report().Rows {
		if row.Revision == shown.Number {
			l.Row = row
		}
	}
	return l
}

func newRevisionsCommand(a *app.App) *cobra.Command {
	return arguments.AsOf(&cobra.Command{
		Use:     "revisions NAME",
		Short:   "List the revisions of an environment, and what changed in each",
		Example: "  deployster env revisions shop/prod",
		Args:    arguments.Named("an environment"),
	}, func(ctx context.Context, args []string, at int64) error {
		name := args[0]
		return withEnvironments(ctx, a, []string{name}, at, func(e *environmentSet) error {
			return e.Ask(name, func(s *environment.State) error {
				rows := [][]string{{"REVISION", "BASE", "BY", "CREATED", "CHANGED"}}
				for _, r := range s.Revisions() {
					rows = append(rows, []string{strconv.Itoa(r.Number), baseText(r.Base), output.Dash(output.InLine(r.By)), output.Moment(r.CreatedAt), output.InLine(whatChanged(s, r))})
				}
				return a.List(map[string]any{"environment": name, "revisions": append([]environment.Revision{}, s.Revisions()...)}, "no revisions", rows)
			})
		})
	})
}

func baseText(base int) string {
	if base == 0 {
		return output.Dash("")
	}
	return strconv.Itoa(base)
}

// whatChanged says in one line what a revision changed of its base.
func whatChanged(s *environment.State, r environment.Revision) string {
	base, err := s.Revision(r.Base)
	if err != nil {
		return output.Dash("")
	}
	return strings.Join(differences(base.Definition, r.Definition), "; ")
}

// differences are those of two definitions, a line each.
func differences(before, after *environment.Definition) []string {
	var lines []string
	for _, d := range environment.Diff(before, after) {
		switch {
		case d.Path != "task.digest":
			lines = append(lines, d.String())
		case before.Task.Manifest == after.Task.Manifest: // else the path differs, too
			lines = append(lines, fmt.Sprintf("task.manifest: %s has another text", after.Task.Manifest))
		}
	}
	return lines
}

type showOptions struct {
	name     string
	revision int // 0 is the newest
	at       int64
}

func newShowCommand(a *app.App) *cobra.Command {
	var o showOptions
	c := &cobra.Command{
		Use:     "show NAME",
		Short:   "Print the definition of a revision",
		Example: "  deployster env show shop/prod\n  deployster env show shop/prod --revision 3 > prod.yaml",
		Args:    arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("revision") && o.revision < 1 {
				return exit.Usage("--revision %d: revisions are numbered from 1", o.revision)
			}
			o.name = args[0]
			return runShow(c.Context(), a, o)
		},
	}
	arguments.RegisterAt(c, &o.at)
	c.Flags().IntVar(&o.revision, "revision", 0, "revision to show (default: the newest)")
	return c
}

func runShow(ctx context.Context, a *app.App, o showOptions) error {
	return withEnvironments(ctx, a, []string{o.name}, o.at, func(e *environmentSet) error {
		if o.revision == 0 {
			_ = e.Ask(o.name, func(s *environment.State) error { o.revision = len(s.Revisions()); return nil })
		}
		r, err := e.revision(o.name, o.revision)
		if err != nil {
			return err
		}
		return a.Show(map[string]any{"environment": o.name, "revision": r}, func() error { return a.Printf("%s", r.Definition.YAML()) })
	})
}

type diffOptions struct {
	name    string
	numbers [2]int
}

func newDiffCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "diff NAME A B",
		Short: "Show how two revisions differ",
		Long: `Show how two revisions differ: their definitions, and the manifests of their tasks
as they were when the revisions were made.`,
		Example: "  deployster env diff shop/prod 3 4",
		Args:    arguments.Named("an environment", "a revision", "a revision"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			o := diffOptions{name: args[0]}
			for i, text := range args[1:] {
				if o.numbers[i], err = strconv.Atoi(text); err != nil || o.numbers[i] < 1 {
					return exit.Usage("%q is no revision: they are numbered from 1", text)
				}
			}
			return runDiff(c.Context(), a, o)
		},
	}
}

func runDiff(ctx context.Context, a *app.App, o diffOptions) error {
	return withEnvironments(ctx, a, []string{o.name}, 0, func(e *environmentSet) error {
		var definitions [2]*environment.Definition
		for i, number := range o.numbers {
			r, err := e.revision(o.name, number)
			if err != nil {
				return err
			}
			definitions[i] = r.Definition
		}
		manifests, err := diffManifests(a, o.name, o.numbers, definitions)
		if err != nil {
			return err
		}
		return a.Show(map[string]any{
			"environment": o.name, "from": o.numbers[0], "to": o.numbers[1], "manifest": manifests,
			"differences": append([]environment.Difference{}, environment.Diff(definitions[0], definitions[1])...),
		}, func() error {
			lines := differences(definitions[0], definitions[1])
			if len(lines) == 0 && manifests == "" {
				return a.Printf("revisions %d and %d of %s do not differ\n", o.numbers[0], o.numbers[1], o.name)
			}
			return view.RevisionDifferences(a.Out, lines, manifests, a.PlanOptions(a.Out))
		})
	})
}

// diffManifests is a unified diff of the manifests as the revisions have them; it
// is empty where they are the same.
func diffManifests(a *app.App, name string, numbers [2]int, definitions [2]*environment.Definition) (string, error) {
	if definitions[0].Task.Digest == definitions[1].Task.Digest {
		return "", nil
	}
	var texts [2][]byte
	var titles [2]string
	for i, d := range definitions {
		text, err := work.ManifestsBelow(a.Workspace).Load(d.Task.Digest)
		if err != nil {
			return "", fmt.Errorf("manifest of revision %d: %w", numbers[i], err)
		}
		texts[i], titles[i] = text, fmt.Sprintf("%s (%s:%d)", d.Task.Manifest, name, numbers[i])
	}
	_, unified, _ := strings.Cut(string(diff.Diff(titles[0], texts[0], titles[1], texts[1])), "\n") // but for the title
	return unified, nil
}

func newHistoryCommand(a *app.App) *cobra.Command {
	return arguments.History(&cobra.Command{
		Use:     "history NAME",
		Short:   "List the deployments of an environment, oldest first",
		Example: "  deployster env history shop/prod --last 20",
		Args:    arguments.Named("an environment"),
	}, func(ctx context.Context, name string, at int64, last int) error {
		return withEnvironments(ctx, a, []string{name}, at, func(e *environmentSet) error {
			var list []environment.Deployment
			_ = e.Ask(name, func(s *environment.State) error { list = arguments.Last(s.Deployments(), last); return nil })
			rows := [][]string{{"DEPLOYMENT", "KIND", "STATUS", "STARTED", "TOOK", "BY", "REASON"}}
			for _, d := range list {
				kind, took := string(d.Kind), output.Dash("")
				if d.Automatic {
					kind = "automatic " + kind
				}
				if !d.Ended.IsZero() {
					took = d.Ended.Sub(d.Started).Round(100 * time.Millisecond).String()
				}
				rows = append(rows, []string{d.ID, kind, string(d.Status), output.Moment(d.Started), took, output.Dash(output.InLine(d.By)), output.Dash(output.InLine(d.Reason))})
			}
			return a.List(map[string]any{"environment": name, "deployments": list}, "nothing was deployed", rows)
		})
	})
}
