package yamlformat

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/internal/pattern"
)

// step is how far each level is indented.
const step = 2

// level is a mapping or list that is open: the column at which its entries begin,
// as it was and as it is to be.
type level struct {
	old, new int
	list     bool
}

// writer gives lines their form, one after the other.
type writer struct {
	*layout
	out      []string
	open     []level
	comments []comment // that wait for the line they belong to
	blank    int       // empty lines that wait
}

type comment struct {
	text   string
	column int
	blank  int // lines before it
}

func format(lines []string, doc *yaml.Node) []string {
	w := &writer{layout: newLayout(lines, doc)}
	for i := 0; i < len(lines); i++ {
		text := strings.TrimRight(lines[i], " \t")
		column := len(text) - len(strings.TrimLeft(text, " "))
		switch {
		case w.quoted[i]:
			w.continued(lines[i])
		case text == "":
			w.blank++
		case text[column] == '#':
			w.comments = append(w.comments, comment{text[column:], column, w.blank})
			w.blank = 0
		case w.begins(position{i, column}):
			w.entry(i, column)
			if w.blocks[i] {
				i = w.block(lines, i)
			}
		case column == 0 && (strings.HasPrefix(text, "---") || strings.HasPrefix(text, "...") || text[0] == '%'):
			w.place(w.open, w.innermost())
			w.flush(1)
			w.out, w.open = append(w.out, text), nil
		default:
			w.continued(lines[i])
		}
	}
	w.blank = 0
	w.place(w.open, w.innermost())
	w.flush(1)
	return w.out
}

// begins reports whether an entry of a mapping or list begins here.
func (w *writer) begins(p position) bool {
	_, key := w.keys[p]
	return key || w.dashes[p]
}

func (w *writer) innermost() level {
	if len(w.open) == 0 {
		return level{}
	}
	return w.open[len(w.open)-1]
}

// entry writes a line on which an entry begins.
func (w *writer) entry(line, column int) {
	before := w.open
	list := w.dashes[position{line, column}]
	for len(w.open) > 0 && (w.innermost().old > column || w.innermost().old == column && w.innermost().list && !list) {
		w.open = w.open[:len(w.open)-1]
	}
	if top := w.innermost(); len(w.open) == 0 {
		w.open = append(w.open, level{column, 0, list})
	} else if top.old < column || list && !top.list {
		w.open = append(w.open[:len(w.open):len(w.open)], level{column, top.new + step, list})
	}
	here := w.innermost()
	w.place(before, here)
	w.flush(1)

	text, rest := w.lines[line], strings.Repeat(" ", here.new)
	p := position{line, column}
	for w.dashes[p] {
		next := p.column + 1
		for next < len(text) && (text[next] == ' ' || text[next] == '\t') {
			next++
		}
		rest += "-"
		if next < len(text) {
			rest += " "
		}
		p.column = next
		if w.begins(p) {
			top := w.innermost()
			w.open = append(w.open[:len(w.open):len(w.open)], level{next, top.new + step, w.dashes[p]})
		}
	}
	w.out = append(w.out, rest+w.body(p))
}

// body is what stands on a line from a position, with one space between a key and its value.
func (w *writer) body(p position) string {
	text := w.lines[p.line]
	body := string(text[min(p.column, len(text)):])
	if value, ok := w.keys[p]; ok && value.line == p.line && value.column > p.column && value.column <= len(text) {
		key := strings.TrimRight(string(text[p.column:value.column]), " \t")
		if strings.HasSuffix(key, ":") && value.column < len(text) {
			body = key + " " + string(text[value.column:])
		}
	}
	if !w.quoted[p.line+1] { // where a space at the end may be part of the text
		body = strings.TrimRight(body, " \t")
	}
	return body
}

// continued writes a line on which a value goes on that has begun on an earlier
// one: it moves with that.
func (w *writer) continued(text string) {
	here := w.innermost()
	for i := range w.comments {
		w.comments[i].column = max(0, w.comments[i].column+here.new-here.old)
	}
	w.flush(len(w.lines))
	trimmed := strings.TrimLeft(text, " ")
	if trimmed == "" {
		w.out = append(w.out, "")
		return
	}
	column := max(0, len(text)-len(trimmed)+here.new-here.old)
	w.out = append(w.out, strings.Repeat(" ", column)+trimmed)
}

// place moves the comments that wait to where what they are about is moved: the
// line that follows, or else one of the levels that were open.
func (w *writer) place(before []level, here level) {
	for i, c := range w.comments {
		column := here.new + max(-here.new, c.column-here.old)
		for _, l := range before {
			if l.old == c.column && c.column != here.old {
				column = l.new
			}
		}
		w.comments[i].column = column
	}
}

// flush writes the comments that wait, and of the empty lines before each at most
// so many.
func (w *writer) flush(most int) {
	for _, c := range w.comments {
		w.empty(c.blank, most)
		w.out = append(w.out, strings.Repeat(" ", c.column)+c.text)
	}
	w.empty(w.blank, most)
	w.comments, w.blank = nil, 0
}

func (w *writer) empty(lines, most int) {
	if len(w.out) == 0 {
		return
	}
	for range min(lines, most) {
		w.out = append(w.out, "")
	}
}

// header is what begins a block of text: how line ends at its end are meant, and
// how far it is indented where that is not that of its first line.
var header = pattern.Lazy(`[|>]([-+]?)([1-9]?)([-+]?)(?:[ \t]+#.*)?$`)

// block writes the lines of a block of text after the one on which it begins, and
// returns the last of them.
func (w *writer) block(lines []string, begun int) int {
	here := w.innermost()
	found := header().FindStringSubmatch(strings.TrimRight(lines[begun], " \t"))
	if found == nil {
		return begun
	}
	old, indent := 0, here.new+step
	if found[2] != "" {
		explicit := int(found[2][0] - '0')
		old, indent = here.old+explicit, here.new+explicit
	}
	end := begun + 1 // behind the last line with something on it
	for i := begun + 1; i < len(lines); i++ {
		spaces := len(lines[i]) - len(strings.TrimLeft(lines[i], " "))
		if spaces == len(lines[i]) {
			continue
		}
		if spaces <= here.old {
			break
		}
		if old == 0 {
			old = spaces
		}
		if spaces < old {
			break
		}
		end = i + 1
	}
	for end < len(lines) && found[1]+found[3] == "+" && strings.Trim(lines[end], " ") == "" {
		end++ // empty lines at the end are kept
	}
	for _, line := range lines[begun+1 : end] {
		text := ""
		if len(line) > old {
			text = strings.Repeat(" ", indent) + line[old:]
		}
		w.out = append(w.out, text)
	}
	return end - 1
}
