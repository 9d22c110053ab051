package env

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/view"
)

func newListCommand(a *app.App) *cobra.Command {
	var at int64
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the environments",
		Example: "  deployster env list",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			asJSON, err := a.AsJSON()
			if err != nil {
				return err
			}
			e, err := environmentsAt(c.Context(), a, nil, at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, e.log.Close()) }()
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
			if asJSON {
				return a.Document(map[string]any{"environments": list})
			}
			if len(list) == 0 {
				return a.Printf("no environments\n")
			}
			return a.Table(rows)
		},
	}
	arguments.RegisterAt(c, &at)
	return c
}

// listedEnvironment is an environment in machine-readable output.
type listedEnvironment struct {
	Name string `json:"environment"`
	environment.Row
	Query string `json:"query"`
}

// listEnvironment tells of the revision in force, or of the newest where none is.
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
	var at int64
	c := &cobra.Command{
		Use:     "revisions NAME",
		Short:   "List the revisions of an environment, and what changed in each",
		Example: "  deployster env revisions shop/prod",
		Args:    arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			asJSON, err := a.AsJSON()
			if err != nil {
				return err
			}
			e, err := environmentsAt(c.Context(), a, args, at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, e.log.Close()) }()
			return e.Ask(args[0], func(s *environment.State) error {
				if asJSON {
					return a.Document(map[string]any{"environment": args[0], "revisions": append([]environment.Revision{}, s.Revisions()...)})
				}
				rows := [][]string{{"REVISION", "BASE", "BY", "CREATED", "CHANGED"}}
				for _, r := range s.Revisions() {
					rows = append(rows, []string{strconv.Itoa(r.Number), baseText(r.Base), output.Dash(output.InLine(r.By)), output.Moment(r.CreatedAt), output.InLine(whatChanged(s, r))})
				}
				return a.Table(rows)
			})
		},
	}
	arguments.RegisterAt(c, &at)
	return c
}

func baseText(base int) string {
	if base == 0 {
		return output.Dash("")
	}
	return strconv.Itoa(base)
}

// whatChanged tells in one line what a revision changed of its base.
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
		case before.Task.Manifest == after.Task.Manifest: // else that is told
			lines = append(lines, fmt.Sprintf("task.manifest: %s has another text", after.Task.Manifest))
		}
	}
	return lines
}

func newShowCommand(a *app.App) *cobra.Command {
	var at int64
	var number int
	c := &cobra.Command{
		Use:     "show NAME",
		Short:   "Print the definition of a revision",
		Example: "  deployster env show shop/prod\n  deployster env show shop/prod --revision 3 > prod.yaml",
		Args:    arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			asJSON, err := a.AsJSON()
			if err != nil {
				return err
			}
			if c.Flags().Changed("revision") && number < 1 {
				return exit.Usage("--revision %d: revisions are numbered from 1", number)
			}
			e, err := environmentsAt(c.Context(), a, args, at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, e.log.Close()) }()
			var r environment.Revision
			err = e.Ask(args[0], func(s *environment.State) error {
				if number == 0 {
					number = len(s.Revisions())
				}
				r, err = s.Revision(number)
				return err
			})
			if err != nil {
				return exit.Refused(err)
			}
			if asJSON {
				return a.Document(map[string]any{"environment": args[0], "revision": r})
			}
			return a.Printf("%s", r.Definition.YAML())
		},
	}
	arguments.RegisterAt(c, &at)
	c.Flags().IntVar(&number, "revision", 0, "which one (default the newest)")
	return c
}

func newDiffCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "diff NAME A B",
		Short: "Show in what two revisions differ",
		Long: `Show in what two revisions differ: their definitions, and the manifests of their
tasks as they were when the revisions were made.`,
		Example: "  deployster env diff shop/prod 3 4",
		Args:    arguments.Named("an environment", "a revision", "a revision"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			asJSON, err := a.AsJSON()
			if err != nil {
				return err
			}
			var numbers [2]int
			for i, text := range args[1:] {
				if numbers[i], err = strconv.Atoi(text); err != nil || numbers[i] < 1 {
					return exit.Usage("%q is no revision: they are numbered from 1", text)
				}
			}
			e, err := environmentsAt(c.Context(), a, args[:1], 0)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, e.log.Close()) }()
			return diffRevisions(a, e, args[0], numbers, asJSON)
		},
	}
}

func diffRevisions(a *app.App, e *environmentSet, name string, numbers [2]int, asJSON bool) error {
	var definitions [2]*environment.Definition
	for i, number := range numbers {
		r, err := e.revision(name, number)
		if err != nil {
			return err
		}
		definitions[i] = r.Definition
	}
	manifests, err := diffManifests(a, name, numbers, definitions)
	if err != nil {
		return err
	}
	if asJSON {
		return a.Document(map[string]any{
			"environment": name, "from": numbers[0], "to": numbers[1], "manifest": manifests,
			"differences": append([]environment.Difference{}, environment.Diff(definitions[0], definitions[1])...),
		})
	}
	lines := differences(definitions[0], definitions[1])
	if len(lines) == 0 && manifests == "" {
		return a.Printf("revisions %d and %d of %s do not differ\n", numbers[0], numbers[1], name)
	}
	return view.RevisionDifferences(a.Out, lines, manifests, a.PlanOptions(a.Out))
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
		text, err := pinnedText(a, d.Task.Digest)
		if err != nil {
			return "", fmt.Errorf("manifest of revision %d: %w", numbers[i], err)
		}
		texts[i], titles[i] = text, fmt.Sprintf("%s (%s:%d)", d.Task.Manifest, name, numbers[i])
	}
	_, unified, _ := strings.Cut(string(diff.Diff(titles[0], texts[0], titles[1], texts[1])), "\n") // but for the title
	return unified, nil
}

func newHistoryCommand(a *app.App) *cobra.Command {
	var at int64
	var last int
	c := &cobra.Command{
		Use:     "history NAME",
		Short:   "List the deployments of an environment, oldest first",
		Example: "  deployster env history shop/prod --last 20",
		Args:    arguments.Named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			return environmentHistory(c.Context(), a, args[0], at, last)
		},
	}
	arguments.RegisterAt(c, &at)
	c.Flags().IntVar(&last, "last", 0, "only the newest N (0 is all)")
	return c
}

func environmentHistory(ctx context.Context, a *app.App, name string, at int64, last int) (err error) {
	asJSON, err := a.AsJSON()
	if err != nil {
		return err
	}
	if last < 0 {
		return exit.Usage("--last %d: it must not be negative", last)
	}
	e, err := environmentsAt(ctx, a, []string{name}, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.log.Close()) }()
	var list []environment.Deployment
	_ = e.Ask(name, func(s *environment.State) error { list = append(list, s.Deployments()...); return nil })
	if last > 0 && len(list) > last {
		list = list[len(list)-last:]
	}
	if asJSON {
		return a.Document(map[string]any{"environment": name, "deployments": append([]environment.Deployment{}, list...)})
	}
	if len(list) == 0 {
		return a.Printf("nothing was deployed\n")
	}
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
	return a.Table(rows)
}
