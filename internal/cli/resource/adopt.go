package resource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/apply"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/report"
)

type adoptOptions struct {
	args   []string
	files  []string
	state  string // file with a state of Terraform; "" is none
	dryRun bool
	input  session.Flags
	engine engines.Flags
}

// NewAdoptCommand returns the command adopt.
func NewAdoptCommand(a *app.App) *cobra.Command {
	var o adoptOptions
	c := &cobra.Command{
		Use:   "adopt -f MANIFEST RESOURCE [ID]",
		Short: "Adopt what exists as a resource of a manifest",
		Long: `Adopt what exists as a resource of a manifest, as if a run had made it: plan,
drift, apply --prune and destroy know of it from then on. Nothing of it is changed; what differs
from the manifest is shown, and the next apply changes that.

The type of the resource is asked for its state. It finds what exists by its
configuration, such as a container by its name, or by an ID, if the type is one
that adopts by an id, as those of Terraform's providers are. What is not there is
not adopted. An instance of a resource with for_each is named as plans do, such
as 'pages[a]'.

With --from-tfstate the resources that Terraform or OpenTofu manages are
adopted: those of the manifest that have the type and the name (- for _) of one
in the state, or, given as RESOURCE or RESOURCE=ADDRESS, those alone. What was adopted
already is left as it is, so that it can be repeated; where it is given, that is an error.
What is managed already is not adopted under another name.

Exit codes: 0 adopted, 1 failed, 3 wrong usage or invalid input (nothing was
recorded), 130 interrupted.`,
		Example: `  deployster adopt -f web.yaml index
  deployster adopt -f cloud.yaml 'servers[a]' i-0a1b2c3d
  deployster adopt -f cloud.yaml --from-tfstate terraform.tfstate --dry-run
  terraform state pull | deployster adopt -f cloud.yaml --from-tfstate -
  deployster adopt -f cloud.yaml --from-tfstate terraform.tfstate db=module.data.aws_db_instance.main`,
		Args: o.check,
		RunE: func(c *cobra.Command, args []string) error {
			o.args = args
			return runAdopt(c.Context(), a, o)
		},
	}
	c.Flags().StringArrayVarP(&o.files, "file", "f", nil, "the manifest; several are merged (repeatable)")
	c.Flags().StringVar(&o.state, "from-tfstate", "", "adopt what this state of Terraform or OpenTofu has; - is stdin")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be adopted, and record nothing")
	o.input.RegisterVariables(c)
	o.engine.Register(c)
	o.engine.RegisterCache(c)
	a.RegisterFull(c)
	return c
}

func (o *adoptOptions) check(c *cobra.Command, args []string) error {
	switch {
	case len(o.files) == 0:
		return exit.Usage("adopt needs the manifest that has the resource: -f MANIFEST")
	case o.state == "" && !c.Flags().Changed("from-tfstate"):
		return arguments.NamedAtLeast(1, "a resource", "an id")(c, args)
	case o.state == "":
		return exit.Usage("--from-tfstate needs a file, or - for stdin")
	}
	for _, arg := range args {
		if err := arguments.OneLine("a resource", arg); err != nil {
			return err
		}
	}
	return nil
}

func runAdopt(ctx context.Context, a *app.App, o adoptOptions) error {
	if err := a.Local(); err != nil {
		return err
	}
	var from *tfstate
	if o.state != "" {
		var err error
		if from, err = readState(a, o.state); err != nil {
			return err
		}
	}
	s, err := session.Start(ctx, a, "adopt", o.files, o.input, o.engine, runner.ConfirmNo)
	if err != nil {
		return err
	}
	defer s.Close()
	if !o.dryRun {
		unlock, err := s.Alone(s.Ctx)
		if err != nil {
			return s.Interrupted(err)
		}
		defer unlock()
	}
	list, notes, err := o.adoptions(s, from)
	if err != nil {
		return s.Interrupted(err)
	}
	report := &output.Screen{}
	if !a.JSON() {
		report = a.Report("adopt")
		s.Caller.Observer = report.Observer
	}
	all, err := s.Adopt(s.Ctx, list, o.dryRun)
	if !a.JSON() {
		err = errors.Join(err, report.Close())
	}
	var failed *failure.Error
	var invalid *manifest.Error
	if refused := errors.As(err, &invalid) && !errors.As(err, &failed); !refused && len(all) > 0 || err == nil {
		err = errors.Join(adoptError(s, err, all), showAdopted(a, o, s.Input.Run, all, notes))
	}
	return s.Interrupted(err)
}

// adoptError is the error of an adoption without what its report says.
func adoptError(s *session.Started, err error, all []report.Adopted) error {
	if slices.ContainsFunc(all, func(r report.Adopted) bool { return r.Status == report.Failed }) {
		return s.Reported(err)
	}
	return err
}

// adoptions are what is to be adopted, and what else is to be said.
func (o *adoptOptions) adoptions(s *session.Started, from *tfstate) (list []report.Adoption, notes []string, err error) {
	if from != nil {
		if list, notes, err = from.adoptions(s.Manifest, o.args); err != nil {
			return nil, nil, err
		}
	} else {
		r, err := declared(s.Manifest, o.args[0])
		if err != nil {
			return nil, nil, err
		}
		list = []report.Adoption{{Resource: r.name}}
		if len(o.args) > 1 {
			list[0].ID = o.args[1]
		}
	}
	managed, err := s.Managed(s.Ctx, list)
	if err != nil {
		return nil, nil, err
	}
	left := list[:0]
	var refused []error
	for _, one := range list {
		var known *apply.ManagedError
		switch err := managed(one); {
		case err == nil:
			left = append(left, one)
		case from != nil && len(o.args) == 0 && errors.As(err, &known):
			notes = append(notes, fmt.Sprintf("%s is managed already, since run %s", one.Resource, known.Run))
		default:
			refused = append(refused, fmt.Errorf("adopting %s: %w", one.Resource, err))
		}
	}
	return left, notes, errors.Join(refused...)
}

// adoptee is a resource that is adopted, or the instance of that name which it may have.
type adoptee struct {
	*manifest.Resource
	name string
}

// declared is the resource of a name, and not several.
func declared(m *manifest.Manifest, name string) (adoptee, error) {
	names, err := m.Named(name)
	switch {
	case err != nil:
		return adoptee{}, exit.Invalid(err)
	case len(names) == 0:
		return adoptee{}, exit.Invalid(fmt.Errorf("there is nothing to adopt %s as: its for_each has no keys, or its when is false", name))
	case len(names) > 1 || names[0] != name:
		const most = 5
		shown := names[:min(most, len(names))]
		return adoptee{}, exit.Invalid(fmt.Errorf("%s stands for %s: name the one that you adopt, such as %s", name, phrase.Count(len(names), "resource"), strings.Join(shown, ", ")))
	}
	r := m.Stands(name)
	if r.Late != nil && r.Name == name {
		return adoptee{}, exit.Invalid(fmt.Errorf("%s stands for instances that are found out in the run (%s): name the one that you adopt, such as %s[KEY]", name, r.Late.At(), name))
	}
	return adoptee{r, name}, nil
}

// showAdopted says what was adopted.
func showAdopted(a *app.App, o adoptOptions, run string, all []report.Adopted, notes []string) error {
	type change struct {
		Path string  `json:"path"`
		Op   diff.Op `json:"op"`
		Old  any     `json:"old"`
		New  any     `json:"new"`
	}
	type row struct {
		Name    string   `json:"name"`
		Type    string   `json:"type"`
		Status  string   `json:"status"` // adopted, failed or skipped
		Differs bool     `json:"differs"`
		Diff    []change `json:"diff,omitempty"`
		Reason  string   `json:"reason,omitempty"`
		Error   string   `json:"error,omitempty"`
	}
	var lines []string
	counts, rows := map[string]int{}, []row{}
	for _, r := range all {
		status, text := "adopted", ""
		switch {
		case r.Status == report.Failed:
			status, text = "failed", ": "+r.Error
		case r.Status == report.Skipped:
			status, text = "skipped", ": "+r.Error
		case r.Differs:
			counts["differs"]++
			text = ", and not as configured: an apply changes it"
		}
		counts[status]++
		one := row{Name: r.Name, Type: r.Type, Status: status, Differs: r.Differs, Reason: string(r.Reason), Error: r.Error}
		for _, c := range r.Diff {
			one.Diff = append(one.Diff, change(c))
		}
		rows = append(rows, one)
		if lines = append(lines, fmt.Sprintf("%s  %s  %s%s", r.Name, r.Type, status, text)); r.Differs {
			for _, line := range diff.Lines(r.Diff) {
				lines = append(lines, "    "+line)
			}
		}
	}
	summary := fmt.Sprintf("%s adopted", phrase.Count(counts["adopted"], "resource"))
	if o.dryRun {
		summary = fmt.Sprintf("%s would be adopted, nothing was recorded", phrase.Count(counts["adopted"], "resource"))
	}
	for _, status := range []string{"failed", "skipped"} {
		if counts[status] > 0 {
			summary += fmt.Sprintf(", %d %s", counts[status], status)
		}
	}
	if counts["differs"] > 0 {
		summary += fmt.Sprintf(", %d not as configured", counts["differs"])
	}
	document := map[string]any{
		"run": run, "dry_run": o.dryRun, "resources": rows, "notes": append([]string{}, notes...),
		"adopted": counts["adopted"], "failed": counts["failed"], "skipped": counts["skipped"], "differs": counts["differs"],
	}
	return a.Show(document, func() error {
		for _, note := range notes {
			lines = append(lines, "note: "+note)
		}
		return a.Printf("%s\n", view.Clean(strings.Join(append(lines, summary), "\n")))
	})
}
