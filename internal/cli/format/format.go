// Package format holds the command fmt.
package format

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/internal/yamlformat"
	"github.com/deployster-go/deployster/manifest"
)

// stdin stands for what is read from stdin and written to stdout.
const stdin = "-"

type options struct{ check, diff bool }

// document is a file as it is and as it is to be.
type document struct {
	name      string
	old, form []byte
}

func (d document) changes() bool { return string(d.old) != string(d.form) }

// difference is a unified diff; "" where nothing changes.
func (d document) difference() string {
	return string(diff.Diff(d.name, d.old, d.name+" (formatted)", d.form))
}

// NewCommand returns the command fmt.
func NewCommand(a *app.App) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "fmt FILE…",
		Short: "Format manifests and other YAML files",
		Long: `Format manifests, files of variables, and definitions of pipelines, environments
and inventories: two spaces for each level, one after a dash and a colon, lists
below their key, no spaces at the end of a line, and no more than one empty line.
Comments, anchors, quotes and blocks of text stay as they are; no value changes.
The names of the files that were changed are printed. "-" reads from stdin and
writes to stdout.

A file with errors is refused, and then none is written.`,
		Example: `  deployster fmt web.yaml pipelines/*.yaml
  deployster fmt --check --diff *.yaml
  deployster fmt - < web.yaml`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usage("which file? usage: %s (see %q)", c.UseLine(), c.CommandPath()+" --help")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return run(a, args, o) },
	}
	c.Flags().BoolVar(&o.check, "check", false, "write nothing, and end with 1 when a file is not formatted")
	c.Flags().BoolVar(&o.diff, "diff", false, "show what changes, as a diff; write nothing")
	return c
}

func run(a *app.App, names []string, o options) error {
	docs, err := read(a, names)
	if err == nil && !o.check && !o.diff {
		err = replaceable(docs)
	}
	if err != nil {
		return err
	}
	var unformatted []string
	for _, d := range docs {
		if d.changes() {
			unformatted = append(unformatted, d.name)
		}
		written, err := write(a, d, o)
		if err != nil {
			return err
		}
		if err := show(a, d, o, written); err != nil {
			return err
		}
	}
	if o.check && len(unformatted) > 0 {
		return fmt.Errorf("%s not formatted: deployster fmt %s", phrase.Count(len(unformatted), "file"), strings.Join(unformatted, " "))
	}
	return nil
}

// read reads and formats all files before the first is written.
func read(a *app.App, names []string) ([]document, error) {
	var docs []document
	var found yamlfile.Report
	for _, name := range names {
		data, err := contents(a, name)
		if err == nil {
			err = yamlfile.Read(name, data, "", func(*yamlfile.Node) {})
		}
		if invalid := new(yamlfile.Error); errors.As(err, &invalid) {
			for _, p := range invalid.Problems {
				found.Add(p)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		form, err := yamlformat.Format(data)
		if err != nil {
			return nil, fmt.Errorf("formatting %s: %w", name, err)
		}
		docs = append(docs, document{name, data, form})
	}
	return docs, found.Err()
}

func contents(a *app.App, name string) ([]byte, error) {
	if name != stdin {
		return manifest.ReadFile(name, yamlfile.MaxSize)
	}
	data, err := io.ReadAll(io.LimitReader(a.In, yamlfile.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading stdin: %w", err)
	}
	return data, nil
}

// write writes a file that changes, and reports whether it did.
func write(a *app.App, d document, o options) (bool, error) {
	switch {
	case o.check || o.diff:
		return false, nil
	case d.name == stdin && !a.JSON():
		_, err := a.Out.Write(d.form)
		return false, err
	case d.name == stdin || !d.changes():
		return false, nil
	}
	return true, replace(d)
}

// show says what was found.
func show(a *app.App, d document, o options, written bool) error {
	if a.JSON() {
		said := map[string]any{"file": d.name, "formatted": !d.changes(), "written": written}
		if d.name == stdin {
			said["text"] = string(d.form)
		}
		if o.diff {
			said["diff"] = d.difference()
		}
		return a.Line(said)
	}
	switch {
	case !d.changes():
		return nil
	case o.diff:
		return a.Printf("%s\n", strings.Join(terminal.Lines(strings.TrimSuffix(d.difference(), "\n")), "\n"))
	case d.name == stdin && !o.check:
		return nil
	}
	return a.Printf("%s\n", terminal.Line(d.name))
}
