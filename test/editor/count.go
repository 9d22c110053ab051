package main

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/deployster-go/deployster/internal/pullrequest/value"
)

// row counts the edits of values with one name.
type row struct{ values, minimal, wrong, refused int }

// count is what became of all edits.
type count struct {
	all              bool
	files, templates int            // templates are those that no reader reads before they are filled in
	skipped          int            // values of files that have very many
	unread           map[string]int // other files that cannot be read, by the reason
	rows             map[string]*row
	refusals         map[string]int // by the reason
	failures         []string       // edits that are wrong or not minimal
}

func newCount(all bool) *count {
	return &count{all: all, unread: map[string]int{}, rows: map[string]*row{}, refusals: map[string]int{}}
}

// directory edits the files of a directory and of those below it.
func (c *count) directory(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		ext := filepath.Ext(path)
		if !entry.Type().IsRegular() || !slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
			return nil
		}
		file, err := os.ReadFile(path) //nolint:gosec // whoever runs this names the directory
		if err != nil {
			return err
		}
		c.file(path, file)
		return nil
	})
}

// Each edit takes as long as its file is, so of a file with very many values some are edited, spread
// over the file.
const (
	mostOfFile = 200
	mostBytes  = 1 << 20 // of all edits of a file
)

// file edits the values of a file, one at a time.
func (c *count) file(name string, file []byte) {
	c.files++
	if len(file) > value.MaxFile {
		c.unread["it has more bytes than are read"]++
		return
	}
	values, err := valuesOf(file, c.all)
	switch {
	case err != nil && strings.Contains(string(file), "{{"):
		c.templates++
		return
	case err != nil:
		c.unread["it is neither YAML nor JSON"]++
		return
	case len(values) == 0:
		return
	}
	most := max(1, min(mostOfFile, mostBytes/len(file)))
	if every := (len(values) + most - 1) / most; every > 1 {
		var some []scalar
		for i := 0; i < len(values); i += every {
			some = append(some, values[i])
		}
		c.skipped += len(values) - len(some)
		values = some
	}
	before := readAll(file)
	for _, v := range values {
		r := c.rows[v.name]
		if r == nil {
			r = &row{}
			c.rows[v.name] = r
		}
		r.values++
		to, after, err := v.edit(file)
		if err != nil {
			r.refused++
			c.refusals[reason(err, v.path)]++
			continue
		}
		at := fmt.Sprintf("%s:%d: %s", name, v.node.Line, v.path)
		if v.minimal(file, after) {
			r.minimal++
		} else {
			c.failures = append(c.failures, at+": other bytes have changed")
		}
		if why := before.differs(after, v, to); why != "" {
			r.wrong++
			c.failures = append(c.failures, at+": "+why)
		}
	}
}

var (
	quoted  = regexp.MustCompile(`"(?:\\.|[^"\\])*"|&\S+|\*\S+`)
	numbers = regexp.MustCompile(`[0-9]+`)
)

// reason is an error without what differs from value to value.
func reason(err error, path string) string {
	text := strings.ReplaceAll(err.Error(), path, "PATH")
	text = numbers.ReplaceAllString(quoted.ReplaceAllString(text, "X"), "N")
	const most = 110
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}

// print writes the tables.
func (c *count) print(to io.Writer) {
	var total row
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VALUE\tEDITED\tMINIMAL\tWRONG\tREFUSED")
	for _, name := range slices.Sorted(maps.Keys(c.rows)) {
		r := c.rows[name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", name, r.values, r.minimal, r.wrong, r.refused)
		total = row{total.values + r.values, total.minimal + r.minimal, total.wrong + r.wrong, total.refused + r.refused}
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\t%d\n", total.values, total.minimal, total.wrong, total.refused)
	_ = w.Flush()
	fmt.Fprintf(to, "\n%d files, of which %d are templates; %d values are left out, of large files\n", c.files, c.templates, c.skipped)
	printReasons(to, "not read because", c.unread)
	printReasons(to, "refused because", c.refusals)
	for _, failure := range c.failures {
		fmt.Fprintln(to, failure)
	}
}

func printReasons(to io.Writer, title string, reasons map[string]int) {
	if len(reasons) == 0 {
		return
	}
	fmt.Fprintf(to, "\n%s:\n", title)
	for _, text := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return reasons[b] - reasons[a] + strings.Compare(a, b)/2 }) {
		fmt.Fprintf(to, "%6d  %s\n", reasons[text], text)
	}
}
