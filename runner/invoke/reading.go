package invoke

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/deployster-go/deployster/internal/terminal"
)

// reading is a text as somebody may read it, with its escapes resolved or as a terminal shows it, and which
// pieces of the text it is put together from; none if it is the text itself.
type reading struct {
	text   []byte
	pieces []piece
	moved  bool // the pieces are not in the order of the text
}

// piece is a part of a reading, up to the next.
type piece struct {
	at         int32 // where it begins in the reading
	start, end int32 // in the text
	one        bool  // it is one character, which is spelled otherwise in the text
}

// readings are those that a text has. Each of them is searched for secrets.
type readings struct {
	each   func(reading)
	ended  bool   // nothing follows the text; or what is unfinished at its end is in no reading
	open   int    // where something unfinished begins, the length of the text if nothing does
	joined []span // escapes and sequences, which are read otherwise if the text is parted within; not noted if it has ended
}

// of calls each for a text as it is, with its escapes resolved, once and again, and for what is seen of
// each of these.
func (rs *readings) of(text []byte) {
	rs.open = len(text)
	now := reading{text: text}
	for level := 0; ; level++ {
		rs.shown(now)
		if bytes.IndexByte(now.text, '%') >= 0 {
			rs.shown(rs.resolved(now, '%', percent, len("%00")))
		}
		if level == encodings || bytes.IndexByte(now.text, '\\') < 0 {
			return
		}
		now = rs.resolved(now, '\\', unescape, len(`\ud83d\ude00`))
	}
}

// shown calls each for a reading, and for what is seen of it.
func (rs *readings) shown(r reading) {
	rs.each(r)
	if !hides(r.text) {
		return
	}
	rs.each(rs.visible(r, false))
	plain := r
	if bytes.IndexByte(r.text, '\x1b') >= 0 {
		var across bool
		plain, across = rs.printed(r, false, false)
		rs.each(rs.visible(plain, false))
		if across { // a sequence goes on in the next line, or ends with its own
			lines, _ := rs.printed(r, true, false)
			rs.each(rs.visible(lines, false))
		}
	}
	if bytes.IndexByte(r.text, 0xC2) >= 0 { // which begins a C1 control character
		c1, _ := rs.printed(r, false, true)
		rs.each(rs.visible(c1, false))
	}
	if bytes.IndexByte(r.text, '\b') >= 0 || bytes.IndexByte(r.text, '\r') >= 0 {
		rs.each(rs.visible(plain, true).drawn())
	}
}

// source is the part of the text that a part of the reading, which is not empty, comes from.
func (r reading) source(start, end int) span {
	if r.pieces == nil {
		return span{start, end}
	}
	first := r.piece(start)
	last := r.piece(end - 1)
	s := span{r.pieces[first].begins(start), r.pieces[last].ends(end)}
	if r.moved {
		for i := first; i <= last; i++ {
			p := r.pieces[i]
			s.start, s.end = min(s.start, p.begins(max(start, int(p.at)))), max(s.end, int(p.end))
		}
	}
	return s
}

// piece returns the index of the piece that a place of the reading is in.
func (r reading) piece(at int) int {
	return sort.Search(len(r.pieces), func(i int) bool { return int(r.pieces[i].at) > at }) - 1
}

// begins returns where in the text a part of the piece begins that begins at a place of the reading.
func (p piece) begins(at int) int {
	if p.one {
		return int(p.start)
	}
	return int(p.start) + at - int(p.at)
}

// ends returns where in the text a part of the piece ends that ends at a place of the reading.
func (p piece) ends(at int) int {
	if p.one {
		return int(p.end)
	}
	return int(p.start) + at - int(p.at)
}

// like returns an empty reading of the same text.
func (r reading) like() reading {
	return reading{text: make([]byte, 0, len(r.text)), pieces: make([]piece, 0, 1+len(r.pieces)+len(r.text)/64), moved: r.moved}
}

// add adds what a part of another reading stands for.
func (r *reading) add(from reading, start, end int, text ...byte) {
	s := from.source(start, end)
	r.pieces = append(r.pieces, piece{int32(len(r.text)), int32(s.start), int32(s.end), true})
	r.text = append(r.text, text...)
}

// keep adds a part of another reading as it is.
func (r *reading) keep(from reading, start, end int) {
	if start == end {
		return
	}
	if from.pieces == nil {
		r.pieces = append(r.pieces, piece{int32(len(r.text)), int32(start), int32(end), false})
	} else {
		for i := from.piece(start); i < len(from.pieces) && int(from.pieces[i].at) < end; i++ {
			p := from.pieces[i]
			begin, stop := max(start, int(p.at)), end
			if i+1 < len(from.pieces) {
				stop = min(end, int(from.pieces[i+1].at))
			}
			r.pieces = append(r.pieces, piece{int32(len(r.text) + begin - start), int32(p.begins(begin)), int32(p.ends(stop)), p.one})
		}
	}
	r.text = append(r.text, from.text[start:end]...)
}

// unfinished notes that what begins at a place of a reading may go on after the end of the text.
func (rs *readings) unfinished(r reading, at int) {
	if at < len(r.text) {
		rs.open = min(rs.open, r.source(at, len(r.text)).start)
	}
}

// join notes a part of a reading in which the text must not be parted.
func (rs *readings) join(r reading, start, end int) {
	if !rs.ended && end-start > 1 {
		rs.joined = append(rs.joined, r.source(start, end))
	}
}

// resolved resolves the escapes that begin with a character, wherever they stand; what is none stays.
func (rs *readings) resolved(r reading, begin byte, resolve func(to, text []byte) ([]byte, int), longest int) reading {
	out := r.like()
	for i := 0; i < len(r.text); {
		if r.text[i] != begin {
			n := bytes.IndexByte(r.text[i:], begin)
			if n < 0 {
				n = len(r.text) - i
			}
			out.keep(r, i, i+n)
			i += n
			continue
		}
		if !rs.ended && len(r.text)-i < longest {
			rs.unfinished(r, i)
			break
		}
		var char [utf8.UTFMax]byte
		text, n := resolve(char[:0], r.text[i:])
		out.add(r, i, i+n, text...)
		rs.join(r, i, i+n)
		i += n
	}
	return out
}

// percent is unescape for what URLs have.
func percent(to, text []byte) ([]byte, int) {
	if text[0] == '%' {
		if char, ok := hexadecimal(text[1:], 2); ok {
			return append(to, byte(char)), 3
		}
	}
	return append(to, text[0]), 1
}

// printed leaves out the control sequences of terminals, of each line or of all, also those that begin with a
// C1 control character if these are wanted, and reports whether one of them has a line break in it.
func (rs *readings) printed(r reading, lines, c1 bool) (out reading, across bool) {
	out = r.like()
	for begin := 0; begin < len(r.text); {
		end := len(r.text)
		if n := bytes.IndexByte(r.text[begin:], '\n'); n >= 0 && lines {
			end = begin + n
		}
		line, from := r.text[begin:end], begin
		open := terminal.Sequences(line, c1, func(start, stop int) {
			out.keep(r, from, begin+start)
			from = begin + stop
			rs.join(r, begin+start, from)
			across = across || bytes.IndexByte(line[start:stop], '\n') >= 0
		})
		if !rs.ended && end == len(r.text) {
			rs.unfinished(r, begin+open)
		}
		begin = min(end+1, len(r.text)) // with the line break
		out.keep(r, from, begin)
	}
	return out, across
}

// visible leaves out the characters that nobody sees, but for those that move the cursor in a line if they
// are wanted. What is no UTF-8, and what stands for that, is left out too. Blanks of all kinds are spaces.
func (rs *readings) visible(r reading, moves bool) reading {
	out := r.like()
	from := 0 // what is to be kept begins here
	var n int
	for i := 0; i < len(r.text); i += n {
		char := rune(r.text[i])
		if n = 1; char >= utf8.RuneSelf {
			if !rs.ended && !utf8.FullRune(r.text[i:]) {
				rs.unfinished(r, i)
				out.keep(r, from, i)
				return out
			}
			char, n = utf8.DecodeRune(r.text[i:])
		}
		switch {
		case char >= ' ' && char < 0x7f || char == '\n' || char == '\t' || moves && (char == '\b' || char == '\r'):
		case unseen(char):
			out.keep(r, from, i)
			from = i + n
		case char >= utf8.RuneSelf && unicode.IsSpace(char):
			out.keep(r, from, i)
			from = i + n
			out.add(r, i, from, ' ')
		}
	}
	out.keep(r, from, len(r.text))
	return out
}

// drawn is what is to be seen of a text that writes over itself. It takes each character for one cell.
func (r reading) drawn() reading {
	out := r.like()
	out.moved = true
	var line []span // the characters in r that its cells show
	column := 0
	end := func() {
		for _, s := range line {
			out.keep(r, s.start, s.end)
		}
		line, column = line[:0], 0
	}
	for i := 0; i < len(r.text); {
		_, n := utf8.DecodeRune(r.text[i:])
		switch r.text[i] {
		case '\b':
			column = max(0, column-1)
		case '\r':
			column = 0
		case '\n':
			end()
			out.keep(r, i, i+1)
		default:
			if column == len(line) {
				line = append(line, span{})
			}
			line[column] = span{i, i + n}
			column++
		}
		i += n
	}
	end()
	return out
}

// hides reports whether a text has more than what is seen of it.
func hides(text []byte) bool {
	const each = 0x0101010101010101
	const spaces, high = ' ' * each, 0x80 * each
	var n int
	for i := 0; i < len(text); i += n {
		if n = 8; i+n <= len(text) {
			if eight := binary.NativeEndian.Uint64(text[i:]); (eight|(eight+each)|(eight-spaces)&^eight)&high == 0 { // all from a space to 0x7e
				continue
			}
		}
		char := rune(text[i])
		if n = 1; char >= utf8.RuneSelf {
			char, n = utf8.DecodeRune(text[i:])
		}
		switch {
		case char >= ' ' && char < 0x7f || char == '\n' || char == '\t':
		case unseen(char) || unicode.IsSpace(char):
			return true
		}
	}
	return false
}

// asShown returns the forms in which a word is looked for in what is seen of a text, besides itself.
func asShown(word string) (forms []string) {
	all := readings{ended: true}
	all.each = func(r reading) {
		if form := string(r.text); form != word && !slices.Contains(forms, form) {
			forms = append(forms, form)
		}
	}
	all.shown(reading{text: []byte(word)})
	return forms
}

// unseen reports whether a character is a control character, has no shape, as the zero-width and those that
// change the direction, belongs to the one before, as accents do, or stands for what is no UTF-8.
func unseen(char rune) bool {
	if char < 1<<16 {
		return unseenRunes()[char>>6]&(1<<(char&63)) != 0
	}
	return unicode.In(char, unseenTables...)
}

var unseenTables = []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.M, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector}

// unseenRunes are those below 1<<16, as a set.
var unseenRunes = sync.OnceValue(func() *[1 << 10]uint64 {
	var set [1 << 10]uint64
	set[utf8.RuneError>>6] |= 1 << (utf8.RuneError & 63)
	for _, table := range unseenTables {
		for _, r := range table.R16 {
			for char := int(r.Lo); char <= int(r.Hi); char += int(r.Stride) {
				set[char>>6] |= 1 << (char & 63)
			}
		}
	}
	return &set
})
