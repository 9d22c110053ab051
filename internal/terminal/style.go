package terminal

import "strings"

// Style paints text with SGR sequences, or leaves it alone when it is false.
type Style bool

// Bold writes what a line is about.
func (s Style) Bold(text string) string { return s.paint("1", text) }

// Dim writes what is seldom looked at.
func (s Style) Dim(text string) string { return s.paint("2", text) }

// Red writes what has failed.
func (s Style) Red(text string) string { return s.paint("31", text) }

// Green writes what has succeeded.
func (s Style) Green(text string) string { return s.paint("32", text) }

// Yellow writes what somebody has to look at.
func (s Style) Yellow(text string) string { return s.paint("33", text) }

// Cyan writes what is under way.
func (s Style) Cyan(text string) string { return s.paint("36", text) }

func (s Style) paint(code, text string) string {
	if !bool(s) || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[m"
}
