package invoke

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// encodings is how many times over a secret may have been written as JSON:
// twice in a log line of JSON that quotes a document.
const encodings = 3

// longestEncoding is by how much a secret grows when encoders write it so: each of
// its bytes as \uXXXX, and the backslashes of that once and again doubled. It is no
// bound of what is found: who escapes what no encoder does, such as the digits of
// an escape, makes it longer. In a line that is handed on in parts (maxLine), a
// secret that is spelled so may be missed where it goes from one part into the
// next; in all other text it is found.
const longestEncoding = 6 + 1 + 2

// span is a part of a text.
type span struct{ start, end int }

// replace puts a text in the place of each word, be it there as it is or in any
// of the ways JSON can spell it. Where words overlap, all that they cover is
// replaced by one.
func (w *words) replace(text, by string) string {
	covers, _ := w.covers([]byte(text))
	if len(covers) == 0 {
		return text
	}
	return render([]byte(text), covers, span{0, len(text)}, by)
}

// covers returns the parts of a text that words cover, in order, and the text
// with all its escapes resolved.
func (w *words) covers(text []byte) (covers []span, resolved reading) {
	now := reading{text: text}
	if len(w.parts) == 0 {
		return nil, now
	}
	for level := 0; ; level++ {
		w.find(now.text, func(start, end int) { covers = cover(covers, now.source(start, end)) })
		if level == encodings || bytes.IndexByte(now.text, '\\') < 0 {
			break
		}
		now = now.unescaped()
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
	return merged, now
}

// render returns a part of a text with one replacement for each cover that begins
// in it. Of a cover that began before, nothing is shown.
func render(text []byte, covers []span, part span, by string) string {
	var b strings.Builder
	shown := part.start
	for _, s := range covers {
		if s.end <= part.start {
			continue
		}
		if s.start >= part.end {
			break
		}
		if s.start >= part.start {
			b.Write(text[shown:s.start])
			b.WriteString(by)
		}
		shown = min(s.end, part.end)
	}
	b.Write(text[shown:part.end])
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

// reading is a text with its JSON escapes resolved, and where each byte comes
// from; starts and ends are nil where nothing was resolved.
type reading struct {
	text         []byte
	starts, ends []int32
}

func (r reading) source(start, end int) span {
	if r.starts == nil {
		return span{start, end}
	}
	return span{int(r.starts[start]), int(r.ends[end-1])}
}

// boundary returns the last place up to at where the text can be parted without
// an escape being read otherwise.
func (r reading) boundary(at int) int {
	if r.starts == nil || at <= 0 {
		return max(0, at)
	}
	after := sort.Search(len(r.starts), func(i int) bool { return int(r.starts[i]) > at })
	return int(r.starts[max(0, after-1)])
}

// unescaped resolves the escapes of JSON, wherever they stand; what is none
// stays.
func (r reading) unescaped() reading {
	out := reading{
		text:   make([]byte, 0, len(r.text)),
		starts: make([]int32, 0, len(r.text)),
		ends:   make([]int32, 0, len(r.text)),
	}
	for i := 0; i < len(r.text); {
		var char [utf8.UTFMax]byte
		resolved, n := unescape(char[:0], r.text[i:])
		s := r.source(i, i+n)
		for range resolved {
			out.starts, out.ends = append(out.starts, int32(s.start)), append(out.ends, int32(s.end))
		}
		out.text = append(out.text, resolved...)
		i += n
	}
	return out
}

// unescape appends what the text begins with, a byte or the character of an
// escape, and returns how many bytes of the text that took.
func unescape(to, text []byte) ([]byte, int) {
	if text[0] != '\\' || len(text) < 2 {
		return append(to, text[0]), 1
	}
	if plain := strings.IndexByte(`"\/bfnrt`, text[1]); plain >= 0 {
		return append(to, "\"\\/\b\f\n\r\t"[plain]), 2
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
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}
