package build

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/build/plan"
	"github.com/deployster-go/deployster/control/submission"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/picture"
	"github.com/deployster-go/deployster/manifest"
)

type planOptions struct {
	file     string
	touched  []string
	converge int
	all      bool
}

func newPlanCommand(a *app.App) *cobra.Command {
	var o planOptions
	c := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show which jobs a change of packages takes",
		Long: `Show which jobs it takes to rebuild packages that were touched, and all that needs
them, to be built or to run: in which order, and what each of them uses of what it needs.

Packages that need each other are built in passes, as often as the file says (converge) or
--converge: each uses what was built last before it, and in the first pass what is released.
An occurrence of a package waits for all who use the former one. What cannot be built, and
what needs it, is listed with its cause. Nothing is recorded and nothing runs.`,
		Example: `  deployster build plan -f packages.yaml
  deployster build plan -f packages.yaml --touched gcc,make
  deployster build plan -f packages.yaml --touched gcc --output svg > gcc.svg`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(c); err != nil {
				return err
			}
			return runPlan(a, o)
		},
	}
	o.register(c)
	c.Flags().BoolVar(&o.all, "all", false, "name all that a job uses, also where that does not fit")
	return output.Pictures(c)
}

// register adds the flags of what is to be built.
func (o *planOptions) register(c *cobra.Command) {
	c.Flags().StringVarP(&o.file, "file", "f", "", "the packages, or jobs")
	c.Flags().StringSliceVar(&o.touched, "touched", nil, "packages that changed (default all)")
	c.Flags().IntVar(&o.converge, "converge", 0, "how often packages that need each other are built (default as the file says)")
}

func (o *planOptions) check(c *cobra.Command) error {
	if o.file == "" {
		return exit.Usage("which packages or jobs? say -f FILE")
	}
	if c.Flags().Changed("touched") && len(o.touched) == 0 {
		// A script whose list of changes is empty must not rebuild everything.
		return exit.Usage("--touched: it names no package; leave it out to build all")
	}
	if c.Flags().Changed("converge") && (o.converge < 1 || o.converge > definition.MaxConverge) {
		return exit.Usage("--converge %d: it must be from 1 to %d", o.converge, definition.MaxConverge)
	}
	return nil
}

func runPlan(a *app.App, o planOptions) error {
	p, err := planned(o)
	if err != nil {
		return err
	}
	switch a.Format {
	case "text":
		return printPlan(a, p, o.all)
	case "json":
		return a.Show(map[string]any{"plan": p}, nil)
	default:
		return a.Draw(drawing(p))
	}
}

// planned reads a definition, and makes its plan.
func planned(o planOptions) (*plan.Plan, error) {
	text, err := manifest.ReadFile(o.file, definition.MaxSize)
	if err != nil {
		return nil, exit.Invalid(err)
	}
	_, p, err := submission.Plan(submission.Request{File: o.file, Text: text, Touched: o.touched, Converge: o.converge})
	return p, err
}

func printPlan(a *app.App, p *plan.Plan, all bool) error {
	rows := [][]string{{"JOB", "PACKAGE", "VERSION", "PASS", "USES", "AFTER"}}
	for _, j := range p.Jobs {
		pass := ""
		if j.Of > 1 {
			pass = fmt.Sprintf("%d of %d", j.Pass, j.Of)
		}
		rows = append(rows, []string{strconv.Itoa(j.Number), j.Package, j.Version, pass, uses(j, all), numbers(j.Waits, all)})
	}
	if err := a.Table("nothing is to be built", rows); err != nil {
		return err
	}
	if err := a.Printf("\n%s of %s%s\n", phrase.Count(len(p.Jobs), "job"), phrase.Count(packages(p), "package"), cycles(p)); err != nil {
		return err
	}
	if len(p.Unbuildable) == 0 {
		return nil
	}
	rows = [][]string{{"UNBUILDABLE", "CAUSE"}}
	for _, u := range p.Unbuildable {
		rows = append(rows, []string{u.Package, u.Cause})
	}
	if err := a.Printf("\n"); err != nil {
		return err
	}
	return a.Table("", rows)
}

func packages(p *plan.Plan) int {
	first := 0
	for _, j := range p.Jobs {
		if j.Pass == 1 {
			first++
		}
	}
	return first
}

// cycles says which packages are built more than once.
func cycles(p *plan.Plan) string {
	const named = 5
	var names []string
	for _, cycle := range p.Cycles {
		names = append(names, cycle...)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	often := "once"
	if p.Converge > 1 {
		often = fmt.Sprintf("%d times", p.Converge)
	}
	return fmt.Sprintf("; %s in %s, built %s: %s", phrase.Count(len(names), "package"), phrase.Count(len(p.Cycles), "cycle"), often, phrase.First(names, named))
}

// shown is how many names of what a job uses are written without --all.
const shown = 4

func uses(j plan.Job, all bool) string {
	var made, released []string
	for _, u := range j.Uses {
		if u.Job > 0 {
			made = append(made, fmt.Sprintf("%s (%d)", u.Package, u.Job))
		} else {
			released = append(released, u.Package+" (released)")
		}
	}
	return first(append(made, released...), all)
}

func numbers(jobs []int, all bool) string {
	texts := make([]string, len(jobs))
	for i, n := range jobs {
		texts[i] = strconv.Itoa(n)
	}
	return first(texts, all)
}

func first(texts []string, all bool) string {
	if all {
		return strings.Join(texts, ", ")
	}
	return phrase.First(texts, shown)
}

// drawing is the graph of the jobs: what each uses, and waits for; and beside them what cannot
// be built.
func drawing(p *plan.Plan) picture.Graph {
	g := picture.Graph{Title: "build group " + p.Group}
	for _, j := range p.Jobs {
		id := strconv.Itoa(j.Number)
		n := picture.Node{ID: id, Label: j.Package, Detail: j.Version}
		if j.Of > 1 {
			n.Detail = strings.TrimSpace(fmt.Sprintf("%s pass %d of %d", j.Version, j.Pass, j.Of))
		}
		g.Nodes = append(g.Nodes, n)
		for _, u := range j.Uses {
			if u.Job > 0 {
				g.Edges = append(g.Edges, picture.Edge{From: id, To: strconv.Itoa(u.Job)})
			}
		}
		for _, wait := range j.Waits {
			g.Edges = append(g.Edges, picture.Edge{From: id, To: strconv.Itoa(wait)})
		}
	}
	unbuildable := func(name string) string { return "unbuildable " + name }
	for _, u := range p.Unbuildable {
		g.Nodes = append(g.Nodes, picture.Node{ID: unbuildable(u.Package), Label: u.Package, Detail: "cannot be built: " + phrase.Cut(u.Cause, 80), State: picture.Failed})
		if u.Needs != "" {
			g.Edges = append(g.Edges, picture.Edge{From: unbuildable(u.Package), To: unbuildable(u.Needs)})
		}
	}
	return g
}
