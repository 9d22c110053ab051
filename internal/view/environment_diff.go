package view

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/terminal"
)

// RevisionDifferences writes how two definitions differ, and a unified diff of their
// manifests, which may be empty. On a terminal it takes no more than a screen.
func RevisionDifferences(w io.Writer, before, after *definition.Definition, manifests string, opts PlanOptions) error {
	d := newDocument(opts)
	for _, line := range DefinitionChanges(before, after) {
		d.line("  " + d.style.Yellow("~") + " " + clean(line))
	}
	d.texts(manifests)
	return d.screenTo(w, opts.Height)
}

// TextDifferences writes a unified diff. On a terminal it takes no more than a screen.
func TextDifferences(w io.Writer, changed string, opts PlanOptions) error {
	d := newDocument(opts)
	d.texts(changed)
	return d.screenTo(w, opts.Height)
}

// screenTo writes differences, of which only the first where a terminal is so high and has not
// room for all, and how much else there is; 0 is no limit.
func (d *document) screenTo(w io.Writer, height int) error {
	if height == 0 {
		return d.writeTo(w, "differences")
	}
	room := max(height-1, fewestReasons+1) // without the prompt
	lines := strings.Split(strings.TrimSuffix(d.String(), "\n"), "\n")
	rows, kept := 0, 0 // those that leave a row to say that there is more
	for _, line := range lines {
		if rows += d.rows(line); rows < room {
			kept++
		}
	}
	if rows > room {
		left, files := lines[kept:], 0
		for i, line := range left {
			if i > 0 && strings.HasPrefix(ansi.Strip(left[i-1]), "    --- ") && strings.HasPrefix(ansi.Strip(line), "    +++ ") {
				files++
			}
		}
		text := fmt.Sprintf("… and %s", phrase.Count(len(left), "more line"))
		if files > 0 {
			text += ", also of " + phrase.Count(files, "more text")
		}
		d.Reset()
		for _, line := range append(lines[:kept:kept], d.style.Dim(ansi.Truncate(text+": --all shows everything", terminal.Limit(d.width), "…"))) {
			d.line(line)
		}
	}
	return d.writeTo(w, "differences")
}

// rows is how many a line takes of the terminal.
func (d *document) rows(line string) int {
	if d.width == 0 {
		return 1
	}
	return max(1, (ansi.StringWidth(line)+d.width-1)/d.width)
}

// texts adds a unified diff.
func (d *document) texts(changed string) {
	for _, line := range cleanLines(changed) {
		switch {
		case strings.HasPrefix(line, "+"):
			line = d.style.Green(line)
		case strings.HasPrefix(line, "-"):
			line = d.style.Red(line)
		}
		d.line("    " + line)
	}
}

// DefinitionChanges are the differences of two definitions, a line each.
func DefinitionChanges(before, after *definition.Definition) []string {
	var lines []string
	for _, d := range definition.Diff(before, after) {
		switch {
		case strings.HasPrefix(d.Path, "task.includes"), strings.HasPrefix(d.Path, "deployment.verify_files"):
		case d.Path != "task.digest":
			lines = append(lines, d.String())
		case before.Task.Manifest == after.Task.Manifest: // else the path differs, too
			lines = append(lines, fmt.Sprintf("task.manifest: %s has another text", after.Task.Manifest))
		}
	}
	lines = append(lines, includedChanges("task.includes", before.Task.Includes, after.Task.Includes)...)
	from, to := before.Deployment.VerifyFiles, after.Deployment.VerifyFiles
	if len(from) == 0 || len(to) == 0 {
		return lines // the steps say it
	}
	return append(lines, includedChanges("verify", from, to)...)
}

// includedChanges are the differences of what two manifests include, a line each.
func includedChanges(as string, before, after map[string]string) (lines []string) {
	switch {
	case before == nil && after == nil:
		return nil
	case before == nil:
		return []string{as + ": carried by the revision, and as the files are before"}
	case after == nil:
		return []string{as + ": as the files are, and carried by the revision before"}
	}
	of := ""
	if as == "verify" {
		of = as + ": "
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		from, was := before[name]
		to, is := after[name]
		switch {
		case name == revision.VariablesName && from != to:
			lines = append(lines, of+"variables: others, or with other values")
		case name == revision.ImagesName && from != to:
			lines = append(lines, of+"images: others, or with other contents")
		case name == revision.OmittedName:
			if from != to {
				lines = append(lines, as+": other files are left out")
			}
		case !was:
			lines = append(lines, fmt.Sprintf("%s: %s is new", as, name))
		case !is:
			lines = append(lines, fmt.Sprintf("%s: %s is not included any more", as, name))
		case from != to:
			lines = append(lines, fmt.Sprintf("%s: %s has another text", as, name))
		}
	}
	return lines
}
