// Package yamlfile reads YAML files that people write, and reports everything
// that is wrong with one at once, each problem at its place and with what was
// probably meant.
//
// Read parses a file and hands its root to a function, which asks each value
// for what it should be (Fields, List, Text, Integer …). A caller that is given
// something else need not return an error: the value has reported its problem,
// the reading goes on, and Read fails in the end with all of them.
//
//	err := yamlfile.Read("hosts.yaml", data, "it needs a list hosts", func(root *yamlfile.Node) {
//		fields, ok := root.Fields("the file", "hosts")
//		…
//	})
//
// Open does the same for one of several files whose problems are reported
// together.
//
// Aliases and merge keys are resolved before, and bounded: a few lines of them
// can stand for more than fits into any machine.
package yamlfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// MaxSize is how large a file may be, in bytes, whose Format says nothing else.
const MaxSize = 8 << 20

// The other bounds of a file.
const (
	maxDepth  = 100     // collections within each other
	maxCopied = 500_000 // values that aliases stand for
)

// TooLarge refuses a file that has at least so many bytes, where most are possible.
func TooLarge(size, most int64) error {
	return fmt.Errorf("has %d bytes or more; at most %d (%d MiB) are possible", size, most, most>>20)
}

// Format is what a kind of file adds to the problems that any file can have.
type Format struct {
	Needs   string                           // what an empty file lacks; "" where a file may be empty
	MaxSize int                              // bytes; 0 is MaxSize
	Second  string                           // follows the problem of a second document; may be empty
	Binary  bool                             // !!binary stands for the text that is written in base64
	Members map[string]string                // what the members of a mapping are, by its path, where they are more than keys
	Advice  func(data []byte, at int) string // follows the explanation of malformed YAML at a byte; may be nil
}

// Read parses a file and lets read look at its root; it is not called when the
// file is not one YAML document. name is what messages call the file, and needs
// says, after "the file is empty; ", what should be in it. It fails with an
// *Error.
func Read(name string, data []byte, needs string, read func(root *Node)) error {
	var report Report
	if root, _ := Open(name, data, Format{Needs: needs}, &report); root != nil {
		read(root)
	}
	return report.Err()
}

// Open parses one of the files that a report is about. root is nil for a file
// in which there is nothing. ok is false, and the reason is reported, when the
// file is not one YAML document.
func Open(name string, data []byte, format Format, report *Report) (root *Node, ok bool) {
	f := &file{name: name, data: data, format: format, report: report}
	report.about(name)
	if most := cmp.Or(format.MaxSize, MaxSize); len(data) > most {
		f.add(Problem{Message: TooLarge(int64(len(data)), int64(most)).Error()})
		return nil, false
	}
	if at, what := f.unreadable(); what != "" {
		f.add(Problem{Position: at, Message: what})
		return nil, false
	}
	parsed, err := parse(data)
	var second errSecond
	switch {
	case errors.As(err, &second):
		f.add(Problem{Position: Position{Line: second.line, Column: second.column}, Message: err.Error() + format.Second})
		return nil, false
	case err != nil:
		f.add(f.syntax(err, format.Advice))
		return nil, false
	case parsed != nil && parsed.ShortTag() != "!!null":
		return f.expand(parsed, &Node{}, nil, 0, false), true
	case format.Needs != "":
		f.add(Problem{Position: Position{Line: 1, Column: 1}, Message: "the file is empty; " + format.Needs})
	}
	return nil, true
}

// file is a file that is being read.
type file struct {
	name   string
	data   []byte
	format Format
	report *Report
	copied int   // values that were read through aliases
	starts []int // of lines, in bytes; made when first needed
}

// add reports a problem of the file.
func (f *file) add(p Problem) {
	p.File = f.name
	f.report.Add(p)
}

// errSecond is about a second document in a file.
type errSecond struct{ line, column int }

func (errSecond) Error() string { return "a second YAML document begins here; a file holds one" }

func parse(data []byte) (root *yaml.Node, err error) {
	defer func() { // the parser is not ours, and the file anybody's
		if r := recover(); r != nil {
			root, err = nil, fmt.Errorf("it cannot be parsed: %v", r)
		}
	}()
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return root, nil
		case err != nil:
			return nil, err
		case len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" && doc.Content[0].Value == "":
			continue // a mere separator
		case root != nil:
			return nil, errSecond{doc.Content[0].Line, doc.Content[0].Column}
		}
		root = doc.Content[0]
	}
}
