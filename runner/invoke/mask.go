package invoke

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// encodings is how many times over a secret may have been written as JSON:
// twice in a log line of JSON that quotes a document.
const encodings = 3

// longestEncoding is by how much a secret grows when encoders write it so: each of
// its bytes as \uXXXX, and the backslashes of that once and again doubled.
const longestEncoding = 6 + 1 + 2

// unbounded is the place up to which a text that has ended can be handed on.
const unbounded = math.MaxInt

// span is a part of a text.
type span struct{ start, end int }

// replace puts a text in the place of each word, be it there as it is, in any of the
// ways JSON and URLs can spell it, or as a terminal shows it. Where words overlap, all
// that they cover is replaced by one.
func (w *words) replace(text, by string) string {
	covers, _ := w.covers([]byte(text), unbounded, 0)
	if len(covers) == 0 {
		return text
	}
	return render([]byte(text), covers, len(text), by)
}

// covers returns the parts of a text that words cover, in order; what stands before
// inside is known to be covered by one that began before the text. It also returns the
// last place, most at most, up to which nothing that follows the text can change that,
// and where the text can be parted: what follows there is read as it is here. The text
// has ended if most is unbounded.
func (w *words) covers(text []byte, most, inside int) (covers []span, cut int) {
	if len(w.parts) == 0 {
		return nil, min(most, len(text))
	}
	if inside > 0 {
		covers = []span{{-1, inside}}
	}
	all := readings{ended: most == unbounded}
	all.each = func(r reading) {
		begun := w.find(r.text, func(start, end int) { covers = cover(covers, r.source(start, end)) })
		all.unfinished(r, begun)
	}
	all.of(text)
	cut = min(most, all.open)
	for at := -1; at != cut; {
		at = cut
		for _, s := range all.joined {
			if s.start < cut && cut < s.end {
				cut = s.start
			}
		}
	}
	slices.SortFunc(covers, func(a, b span) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	merged := covers[:0]
	for _, s := range covers {
		if n := len(merged); n > 0 && s.start < merged[n-1].end {
			merged[n-1].end = max(merged[n-1].end, s.end)
		} else {
			merged = append(merged, s)
		}
	}
	return merged, cut
}

// render returns the beginning of a text with one replacement for each cover that begins
// in it. Of a cover that began before the text, nothing is shown.
func render(text []byte, covers []span, end int, by string) string {
	var b strings.Builder
	shown := 0
	for _, s := range covers {
		if s.start >= end {
			break
		}
		if s.start >= 0 {
			b.Write(text[shown:s.start])
			b.WriteString(by)
		}
		shown = min(s.end, end)
	}
	b.Write(text[shown:end])
	return b.String()
}

// cover adds a span to those found so far, which it often overlaps or extends.
func cover(list []span, s span) []span {
	for n := len(list); n > 0 && s.start < list[n-1].end && s.end > list[n-1].start; n-- {
		s = span{min(s.start, list[n-1].start), max(s.end, list[n-1].end)}
		list = list[:n-1]
	}
	return append(list, s)
}

// unescape appends what the text begins with, a byte or the character of an escape of
// JSON, or one of those that other languages have besides, and returns how many bytes of
// the text that took.
func unescape(to, text []byte) ([]byte, int) {
	if text[0] != '\\' || len(text) < 2 {
		return append(to, text[0]), 1
	}
	if plain := strings.IndexByte(`"\/bfnrt'ave`, text[1]); plain >= 0 {
		return append(to, "\"\\/\b\f\n\r\t'\a\v\x1b"[plain]), 2
	}
	if char, ok := hexadecimal(text[2:], 2); ok && text[1] == 'x' {
		return append(to, byte(char)), 4
	}
	if char, ok := hexadecimal(text[2:], 8); ok && text[1] == 'U' {
		return utf8.AppendRune(to, char), 10
	}
	if char, err := strconv.ParseUint(string(text[1:min(4, len(text))]), 8, 8); err == nil && len(text) >= 4 {
		return append(to, byte(char)), 4
	}
	unit, ok := codeUnit(text)
	if !ok {
		return append(to, text[0]), 1
	}
	if utf16.IsSurrogate(unit) {
		second, _ := codeUnit(text[6:])
		if both := utf16.DecodeRune(unit, second); both != utf8.RuneError {
			return utf8.AppendRune(to, both), 12
		}
	}
	return utf8.AppendRune(to, unit), 6
}

// codeUnit reads the \uXXXX that a text begins with.
func codeUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	return hexadecimal(text[2:], 4)
}

// hexadecimal reads so many digits.
func hexadecimal(text []byte, digits int) (rune, bool) {
	if len(text) < digits {
		return 0, false
	}
	value, err := strconv.ParseUint(string(text[:digits]), 16, 31)
	return rune(value), err == nil
}
