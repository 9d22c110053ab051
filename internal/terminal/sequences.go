package terminal

import (
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi/parser"
)

// Sequences calls each for every control sequence in a text, which a terminal acts on and does not
// print. With c1 these are also those that begin with a C1 control character, which some terminals
// know in UTF-8. It returns where a sequence begins that has no end, for which it calls each too, or
// len(text).
func Sequences(text []byte, c1 bool, each func(start, end int)) (open int) {
	state, begins := parser.GroundState, 0
	var size int
	for i := 0; i < len(text); i += size {
		was := state
		if size = 1; text[i] < utf8.RuneSelf {
			if state == parser.GroundState && text[i] != '\x1b' {
				continue // the most common case by far
			}
			state, _ = parser.Table.Transition(state, text[i])
		} else {
			var char rune
			char, size = utf8.DecodeRune(text[i:])
			switch {
			case c1 && char >= 0x80 && char < 0xa0:
				state, _ = parser.Table.Transition(state, byte(char))
			case state != parser.OscStringState && state != parser.DcsStringState: // it is printed
				if state = parser.GroundState; was != state {
					each(begins, i)
				}
				continue
			}
		}
		switch {
		case was == parser.GroundState:
			begins = i
		case state == parser.GroundState:
			each(begins, i+size)
		}
	}
	if state == parser.GroundState {
		return len(text)
	}
	each(begins, len(text))
	return begins
}
