package cli

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
	"github.com/deployster-go/deployster/internal/view"
)

func (a *app) environmentListCommand() *cobra.Command {
	var at int64
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the environments",
		Example: "  deployster env list",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			asJSON, err := a.json()
			if err != nil {
				return err
			}
			e, err := a.environmentsAt(c.Context(), nil, at)
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
					rows = append(rows, []string{name, strconv.Itoa(l.Revision), string(l.Status), strconv.Itoa(l.Desired), strconv.Itoa(l.Current), inLine(l.Query)})
					return nil
				})
			}
			if asJSON {
				return a.printJSON(map[string]any{"environments": list})
			}
			if len(list) == 0 {
				return write(a.out, "no environments\n")
			}
			return a.table(rows)
		},
	}
	registerAt(c, &at)
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

func (a *app) environmentRevisionsCommand() *cobra.Command {
	var at int64
	c := &cobra.Command{
		Use:     "revisions NAME",
		Short:   "List the revisions of an environment, and what changed in each",
		Example: "  deployster env revisions shop/prod",
		Args:    named("an environment"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			asJSON, err := a.json()
			if err != nil {
				return err
			}
			e, err := a.environmentsAt(c.Context(), args, at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, e.log.Close()) }()
			return e.Ask(args[0], func(s *environment.State) error {
				if asJSON {
					return a.printJSON(map[string]any{"environment": args[0], "revisions": append([]environment.Revision{}, s.Revisions()...)})
				}
				rows := [][]string{{"REVISION", "BASE", "BY", "CREATED", "CHANGED"}}
				for _, r := range s.Revisions() {
					rows = append(rows, []string{strconv.Itoa(r.Number), baseText(r.Base), dash(inLine(r.By)), moment(r.CreatedAt), inLine(whatChanged(s, r))})
				}
				return a.table(rows)
			})
		},
	}
	registerAt(c, &at)
	return c
}

func baseText(base int) string {
	if base == 0 {
		return dash("")
	}
	return strconv.Itoa(base)
}

// inLine makes what somebody wrote one line that is safe to print.
func inLine(text string) string { return strings.Join(strings.Fields(view.Clean(text)), " ") }

func moment(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// whatChanged tells in one line what a revision changed of its base.
func whatChanged(s *environment.State, r environment.Revision) string {
	base, err := s.Revision(r.Base)
	if err != nil {
		return dash("")
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

func (a *app) environmentShowCommand() *cobra.Command {
	var at int64
	var number int
	c := &cobra.Command{
		Use:     "show NAME",
		Short:   "Print the definition of a revision",
		Example: "  deployster env show shop/prod\n  deployster env show shop/prod --revision 3 > prod.yaml",
		Args:    named("an environment"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			asJSON, err := a.json()
			if err != nil {
				return err
			}
			if c.Flags().Changed("revision") && number < 1 {
				return usage("--revision %d: revisions are numbered from 1", number)
			}
			e, err := a.environmentsAt(c.Context(), args, at)
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
				return refused(err)
			}
			if asJSON {
				return a.printJSON(map[string]any{"environment": args[0], "revision": r})
			}
			return write(a.out, "%s", r.Definition.YAML())
		},
	}
	registerAt(c, &at)
	c.Flags().IntVar(&number, "revision", 0, "which one (default the newest)")
	return c
}

func (a *app) environmentDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff NAME A B",
		Short: "Show in what two revisions differ",
		Long: `Show in what two revisions differ: their definitions, and the manifests of their
tasks as they were when the revisions were made.`,
		Example: "  deployster env diff shop/prod 3 4",
		Args:    named("an environment", "a revision", "a revision"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			asJSON, err := a.json()
			if err != nil {
				return err
			}
			var numbers [2]int
			for i, text := range args[1:] {
				if numbers[i], err = strconv.Atoi(text); err != nil || numbers[i] < 1 {
					return usage("%q is no revision: they are numbered from 1", text)
				}
			}
			e, err := a.environmentsAt(c.Context(), args[:1], 0)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, e.log.Close()) }()
			return a.diffRevisions(e, args[0], numbers, asJSON)
		},
	}
}

func (a *app) diffRevisions(e *environmentSet, name string, numbers [2]int, asJSON bool) error {
	var definitions [2]*environment.Definition
	for i, number := range numbers {
		r, err := e.revision(name, number)
		if err != nil {
			return err
		}
		definitions[i] = r.Definition
	}
	manifests, err := a.diffManifests(name, numbers, definitions)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(map[string]any{
			"environment": name, "from": numbers[0], "to": numbers[1], "manifest": manifests,
			"differences": append([]environment.Difference{}, environment.Diff(definitions[0], definitions[1])...),
		})
	}
	lines := differences(definitions[0], definitions[1])
	if len(lines) == 0 && manifests == "" {
		return write(a.out, "revisions %d and %d of %s do not differ\n", numbers[0], numbers[1], name)
	}
	return view.RevisionDifferences(a.out, lines, manifests, a.planOptions(a.out))
}

// diffManifests is a unified diff of the manifests as the revisions have them; it
// is empty where they are the same.
func (a *app) diffManifests(name string, numbers [2]int, definitions [2]*environment.Definition) (string, error) {
	if definitions[0].Task.Digest == definitions[1].Task.Digest {
		return "", nil
	}
	var texts [2][]byte
	var titles [2]string
	for i, d := range definitions {
		text, err := a.pinnedText(d.Task.Digest)
		if err != nil {
			return "", fmt.Errorf("manifest of revision %d: %w", numbers[i], err)
		}
		texts[i], titles[i] = text, fmt.Sprintf("%s (%s:%d)", d.Task.Manifest, name, numbers[i])
	}
	_, unified, _ := strings.Cut(string(diff.Diff(titles[0], texts[0], titles[1], texts[1])), "\n") // but for the title
	return unified, nil
}

func (a *app) environmentHistoryCommand() *cobra.Command {
	var at int64
	var last int
	c := &cobra.Command{
		Use:     "history NAME",
		Short:   "List the deployments of an environment, oldest first",
		Example: "  deployster env history shop/prod --last 20",
		Args:    named("an environment"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.environmentHistory(c.Context(), args[0], at, last)
		},
	}
	registerAt(c, &at)
	c.Flags().IntVar(&last, "last", 0, "only the newest N (0 is all)")
	return c
}

func (a *app) environmentHistory(ctx context.Context, name string, at int64, last int) (err error) {
	asJSON, err := a.json()
	if err != nil {
		return err
	}
	if last < 0 {
		return usage("--last %d: it must not be negative", last)
	}
	e, err := a.environmentsAt(ctx, []string{name}, at)
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
		return a.printJSON(map[string]any{"environment": name, "deployments": append([]environment.Deployment{}, list...)})
	}
	if len(list) == 0 {
		return write(a.out, "nothing was deployed\n")
	}
	rows := [][]string{{"DEPLOYMENT", "KIND", "STATUS", "STARTED", "TOOK", "BY", "REASON"}}
	for _, d := range list {
		kind, took := string(d.Kind), dash("")
		if d.Automatic {
			kind = "automatic " + kind
		}
		if !d.Ended.IsZero() {
			took = d.Ended.Sub(d.Started).Round(100 * time.Millisecond).String()
		}
		rows = append(rows, []string{d.ID, kind, string(d.Status), moment(d.Started), took, dash(inLine(d.By)), dash(inLine(d.Reason))})
	}
	return a.table(rows)
}
