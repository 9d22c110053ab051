package python

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Python changes the case of text by all of Unicode's rules, under which "ß"
// becomes "SS"; package strings goes letter by letter.

// Upper is Python's str.upper.
func Upper(text string) string { return cases.Upper(language.Und).String(text) }

// Lower is Python's str.lower.
func Lower(text string) string { return cases.Lower(language.Und).String(text) }

// Capitalize is Python's str.capitalize.
func Capitalize(text string) string {
	_, n := utf8.DecodeRuneInString(text)
	// What a sigma becomes depends on what is before it.
	return cases.Title(language.Und).String(text[:n]) + Lower(text)[len(Lower(text[:n])):]
}

// TitleWords is the filter title, which capitalizes after spaces, dashes and
// opening brackets.
func TitleWords(text string) string {
	return eachWord(text, func(r rune) bool { return r != '-' && !unicode.IsSpace(r) && !strings.ContainsRune("({[<", r) }, func(word string) string {
		_, n := utf8.DecodeRuneInString(word)
		return Upper(word[:n]) + Lower(word[n:])
	})
}

// titleLetters is Python's str.title: every run of letters that have a case is
// a word.
func titleLetters(text string) string { return eachWord(text, isCased, Capitalize) }

func isCased(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

// eachWord changes every run of the characters that are part of words.
func eachWord(text string, within func(rune) bool, change func(string) string) string {
	var b strings.Builder
	for text != "" {
		word := strings.TrimLeftFunc(text, func(r rune) bool { return !within(r) })
		b.WriteString(text[:len(text)-len(word)])
		text = strings.TrimLeftFunc(word, within)
		b.WriteString(change(word[:len(word)-len(text)]))
	}
	return b.String()
}

// IsCase is Python's islower and isupper: at least one letter of the case and
// none of the other.
func IsCase(text string, is, other func(rune) bool) bool {
	return strings.IndexFunc(text, is) >= 0 && strings.IndexFunc(text, other) < 0
}
