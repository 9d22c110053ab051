package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/internal/yamlfile"
)

// file is a parsed source and where to tell what is wrong with it.
type file struct {
	name  string
	data  []byte
	found *problems

	lines   []int // offsets of the beginnings of lines; made when first needed
	copying int   // how many aliases and merge keys lead to what is being read
	copied  int   // nodes read through them so far
}

func (f *file) at(n *yaml.Node) Position {
	return Position{File: f.name, Line: n.Line, Column: n.Column}
}

func (f *file) fail(n *yaml.Node, path []string, format string, args ...any) {
	f.found.add(Problem{Position: f.at(n), Path: pathText(path), Message: fmt.Sprintf(format, args...)})
}

// open parses a source. It returns nil for the node of a file with nothing in
// it, and false when the file is not one YAML document.
func open(source Source, found *problems) (*file, *yaml.Node, bool) {
	f := &file{name: source.Name, data: source.Data, found: found}
	if len(source.Data) > maxFile {
		found.add(Problem{Position: Position{File: f.name}, Message: tooLarge(int64(len(source.Data))).Error()})
		return f, nil, false
	}
	if at, what := f.unreadable(); what != "" {
		found.add(Problem{Position: at, Message: what})
		return f, nil, false
	}
	root, err := f.parse()
	if err != nil {
		found.add(f.syntax(err))
		return f, nil, false
	}
	return f, root, true
}

// errSecond is about a second document in a file.
type errSecond struct{ node *yaml.Node }

func (errSecond) Error() string {
	return "a second YAML document begins here; a file holds one, several files can be given"
}

func (f *file) parse() (*yaml.Node, error) { return parse(f.data) }

func parse(data []byte) (root *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, fmt.Errorf("it can not be parsed: %v", r)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return root, nil
		case err != nil:
			return nil, err
		}
		if len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" && doc.Content[0].Value == "" {
			continue // a mere separator
		}
		if root != nil {
			return nil, errSecond{doc.Content[0]}
		}
		root = doc.Content[0]
	}
}

var (
	yamlLine   = regexp.MustCompile(`^yaml: line (\d+): (?s)(.*)$`)
	yamlAnchor = regexp.MustCompile(`^yaml: unknown anchor '(.*)' referenced$`)
)

// syntax puts what the parser says at its place.
func (f *file) syntax(err error) Problem {
	var second errSecond
	if errors.As(err, &second) {
		return Problem{Position: f.at(second.node), Message: err.Error()}
	}
	text := err.Error()
	if m := yamlAnchor.FindStringSubmatch(text); m != nil {
		if i := bytes.Index(f.data, []byte("*"+m[1])); i >= 0 {
			return Problem{Position: f.position(i), Message: fmt.Sprintf("there is no anchor &%s before this alias", m[1])}
		}
	}
	at := Position{File: f.name, Line: f.culprit(err), Column: 1}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = m[2]
	}
	if i, message := yamlfile.Malformed(f.data, at.Line); message != "" {
		if f.makesResources(i) {
			message += "; a loop can not make resources: write each of them (an anchor and << share what they have in common), or have a program write the file"
		}
		return Problem{Position: f.position(i), Message: "malformed YAML: " + message}
	}
	line := f.line(at.Line)
	at.Column = 1 + utf8.RuneCount(line) - utf8.RuneCount(bytes.TrimLeft(line, " \t"))
	message := "malformed YAML: " + strings.TrimPrefix(text, "yaml: ")
	if bytes.Contains(line, []byte("{{")) || bytes.Contains(line, []byte("{%")) {
		message += " (a value that begins with an expression must be in quotes)"
	}
	return Problem{Position: at, Message: message}
}

var forLoop = regexp.MustCompile(`^\{%-?\s*for\s`)

// makesResources tells whether a loop begins at a byte whose first line is meant
// to be one of resources.
func (f *file) makesResources(at int) bool {
	if !forLoop.Match(f.data[at:]) {
		return false
	}
	text := func(line string) bool { return strings.TrimSpace(line) != "" }
	deep := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	lines := strings.Split(string(f.data[at:]), "\n")[1:]
	first := slices.IndexFunc(lines, text)
	if first < 0 {
		return false
	}
	for _, line := range slices.Backward(strings.Split(string(f.data[:at]), "\n")) {
		if text(line) && deep(line) < deep(lines[first]) {
			return strings.HasPrefix(line, "resources:")
		}
	}
	return false
}

// culprit is the line where the file stops being YAML. The parser only tells
// where the collection begins in which it gave up, if that, so the shortest
// beginning of the file that it refuses in the same way is looked for.
func (f *file) culprit(err error) int {
	const searched = 1 << 20 // bytes; in a larger file this would take too long
	reason := func(err error) string {
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			return m[2]
		}
		return err.Error()
	}
	if len(f.data) > searched {
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			line, _ := strconv.Atoi(m[1])
			return max(1, min(line, f.count()))
		}
		return 1
	}
	want := reason(err)
	return 1 + sort.Search(f.count()-1, func(i int) bool {
		_, err := parse(f.data[:f.lines[i+1]])
		return err != nil && reason(err) == want
	})
}

// unreadable finds what no YAML file may contain; the parser would not say
// where it is.
func (f *file) unreadable() (Position, string) {
	if bytes.HasPrefix(f.data, []byte{0xff, 0xfe}) || bytes.HasPrefix(f.data, []byte{0xfe, 0xff}) {
		return Position{File: f.name, Line: 1, Column: 1}, "is UTF-16; save it as UTF-8"
	}
	for i := 0; i < len(f.data); {
		c := f.data[i]
		if c < utf8.RuneSelf {
			if c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f {
				return f.position(i), fmt.Sprintf("a control character (%#02x) is not possible in YAML", c)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(f.data[i:])
		if r == utf8.RuneError && n == 1 {
			return f.position(i), "is not valid UTF-8"
		}
		i += n
	}
	return Position{}, ""
}
