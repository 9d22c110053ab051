package console

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/internal/terminal"
)

// fault is why an expression has no value, and where in it that is.
type fault struct {
	message string
	column  int // from 1; 0 is not known
}

// faultOf reads an error of a template in which so many characters stand before the text of an
// expression.
func faultOf(err error, text string, before int) fault {
	var syntax *expression.SyntaxError
	var undefined *expression.UndefinedError
	var failed *expression.EvalError
	f := fault{message: err.Error()}
	switch {
	case errors.As(err, &syntax) && syntax.File == "":
		f = fault{syntax.Message, syntax.Column}
	case errors.As(err, &undefined) && undefined.File == "":
		f.column = undefined.Column
		if undefined.Of == "" {
			if near := suggest.Closest(undefined.Name, undefined.Defined); near != "" {
				f.message += "; did you mean \"" + near + "\"?"
			}
		}
	case errors.As(err, &failed) && failed.File == "":
		f = fault{failed.Message, failed.Column}
	}
	f.column = max(f.column-before, 0)
	if end := utf8.RuneCountInString(text) + 1; before > 0 && f.column >= end {
		f.column = end
		f.message = strings.ReplaceAll(f.message, `"}}"`, "the end of the expression")
	}
	return f
}

// where is its column, before its message.
func (f fault) where() string {
	if f.column == 0 {
		return ""
	}
	return fmt.Sprintf("column %d: ", f.column)
}

// shownBefore and shownAfter are how many characters of an expression are shown around a fault.
const shownBefore, shownAfter = 50, 25

// point shows the part of an expression in which a fault is, with a mark below its column;
// "" where that is not known.
func (f fault) point(text string) string {
	runes := []rune(text)
	if f.column == 0 || f.column > len(runes)+1 {
		return ""
	}
	at := f.column - 1
	before, after := runes[max(0, at-shownBefore):at], runes[at:min(len(runes), at+shownAfter)]
	head := terminal.Scrub(string(before))
	if at > shownBefore {
		head = "…" + head
	}
	return "  " + head + terminal.Scrub(string(after)) + "\n  " + strings.Repeat(" ", ansi.StringWidth(head)) + "^\n"
}
