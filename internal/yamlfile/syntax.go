package yamlfile

import (
	"bytes"
	"fmt"
	"sort"
	"strconv"
	"unicode/utf8"

	"github.com/deployster-go/deployster/internal/pattern"
)

// unreadable finds what no YAML file may contain; the parser would not say
// where it is.
func (f *file) unreadable() (Position, string) {
	if bytes.HasPrefix(f.data, []byte{0xff, 0xfe}) || bytes.HasPrefix(f.data, []byte{0xfe, 0xff}) {
		return Position{Line: 1, Column: 1}, "is UTF-16; save it as UTF-8"
	}
	for i := 0; i < len(f.data); {
		c := f.data[i]
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f {
			return f.position(i), fmt.Sprintf("a control character (%#02x) is not possible in YAML", c)
		}
		r, n := utf8.DecodeRune(f.data[i:])
		if r == utf8.RuneError && n == 1 {
			return f.position(i), "is not valid UTF-8"
		}
		i += n
	}
	return Position{}, ""
}

var (
	yamlLine   = pattern.Lazy(`^yaml: (?:line (\d+): )?(?s)(.*)$`)
	yamlAnchor = pattern.Lazy(`^yaml: unknown anchor '(.*)' referenced$`)
)

// syntax puts what the parser says at its place.
func (f *file) syntax(err error, advice func(data []byte, at int) string) Problem {
	if m := yamlAnchor().FindStringSubmatch(err.Error()); m != nil {
		if i := bytes.Index(f.data, []byte("*"+m[1])); i >= 0 {
			return Problem{Position: f.position(i), Message: fmt.Sprintf("there is no anchor &%.60s before this alias", m[1])}
		}
	}
	line := f.malformedLine(err)
	if at, message := Malformed(f.data, line); message != "" {
		if advice != nil {
			message += advice(f.data, at)
		}
		return Problem{Position: f.position(at), Message: "malformed YAML: " + message}
	}
	text, message := f.line(line), "malformed YAML: "+reason(err)
	if bytes.Contains(text, []byte("{{")) || bytes.Contains(text, []byte("{%")) {
		message += " (a value that begins with an expression must be in quotes)"
	}
	column := 1 + len(text) - len(bytes.TrimLeft(text, " \t"))
	return Problem{Position: Position{Line: line, Column: column}, Message: message}
}

// reason is what the parser says, without the line.
func reason(err error) string { return yamlLine().ReplaceAllString(err.Error(), "$2") }

// malformedLine is where the file stops being YAML. The parser only says where
// the collection begins in which it gave up, if that, so the shortest beginning
// of the file that it refuses in the same way is looked for.
func (f *file) malformedLine(err error) int {
	const searched = 1 << 20 // bytes; in a larger file this would take too long
	f.findLines()
	if len(f.data) <= searched {
		return 1 + sort.Search(len(f.starts)-1, func(i int) bool {
			_, e := parse(f.data[:f.starts[i+1]])
			return e != nil && reason(e) == reason(err)
		})
	}
	line := 1
	if m := yamlLine().FindStringSubmatch(err.Error()); m != nil && m[1] != "" {
		line, _ = strconv.Atoi(m[1])
	}
	return max(1, min(line, len(f.starts)))
}
