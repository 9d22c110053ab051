package invoke

import (
	"bytes"
	"io"

	"github.com/deployster-go/deployster/protocol"
)

// keepLines passes on what an action prints on stdout, but for the last line where that is
// one that has something kept: a line that may be the last one waits for what comes next. A
// longer line than such a one can be is not kept in memory.
type keepLines struct {
	to       io.Writer
	discreet bool // an earlier line of this kind is not shown as it is

	line    []byte // what may be such a line, as far as it goes
	ended   bool   // and is whole
	passing bool   // within a line that is not
	tooLong bool   // so is the line that the action has printed: nothing counts any more
}

func (k *keepLines) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		if k.ended {
			k.pass()
		}
		rest = after
		switch {
		case k.tooLong:
			return len(p), nil
		case !k.passing:
			n := min(len(part), protocol.MaxKeepLine+1-len(k.line))
			k.line = append(k.line, part[:n]...)
			if protocol.MayBeKeep(k.line) {
				k.ended, k.tooLong = whole, len(k.line) > protocol.MaxKeepLine
				continue
			}
			part, k.line = append(k.line, part[n:]...), nil
		}
		if whole {
			part = append(part[:len(part):len(part)], '\n')
		}
		k.passing = !whole
		_, _ = k.to.Write(part) // it never fails
	}
	return len(p), nil
}

// pass passes on a line that turns out not to be the last.
func (k *keepLines) pass() {
	text := k.line
	if _, keeps, _ := protocol.DecodeKeep(text); keeps && k.discreet {
		text = []byte(`{"keep": "` + Masked + `"}`)
	}
	_, _ = k.to.Write(append(text, '\n'))
	k.line, k.ended = nil, false
}

// end returns what the last line has kept, nil where it is another, which is passed on.
func (k *keepLines) end() (map[string]any, error) {
	line := k.line
	k.line = nil
	keep, keeps, err := protocol.DecodeKeep(line)
	if !keeps {
		if k.ended {
			line = append(line, '\n')
		}
		_, _ = k.to.Write(line)
	}
	k.ended = false
	return keep, err
}
