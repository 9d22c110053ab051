package output

import (
	"fmt"
	"time"
)

// Progress writes to one line of a terminal, from the first second on; "" ends
// it. Elsewhere it writes nothing.
func (p *Printer) Progress(what string) func(string) {
	if !p.Terminal(p.Err) {
		return func(string) {}
	}
	begun, shown := p.Now(), false
	return func(text string) {
		switch {
		case text == "" && shown:
			fmt.Fprint(p.Err, "\r\x1b[K")
		case text != "" && p.Now().Sub(begun) > time.Second:
			shown = true
			fmt.Fprintf(p.Err, "\r\x1b[K%s: %s", what, text)
		}
	}
}
