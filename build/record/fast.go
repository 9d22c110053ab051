package record

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// The data of the events that there are most of is written and read without reflection. What
// is written is what encoding/json writes, and what is not of the form that is written is
// read by it.

// reads is data that reads itself, where the text is of a plain form.
type reads interface{ read(text []byte) bool }

func (d *Finished) size() int {
	const names = 180 // the names of the fields, and numbers
	return names + len(d.Artifact) + len(d.Inputs) + len(d.Reused) + len(d.Worker) + len(d.Engine) + len(d.Image) + len(d.Commit) + len(d.Provenance) + len(d.Pushed) + len(d.Log)
}

// Text is the data as it is recorded.
func (d *Started) Text() json.RawMessage {
	to := make([]byte, 0, len(d.Worker)+len(d.Inputs)+len(`{"worker":"","inputs":""}`))
	to = appendText(append(to, `{"worker":`...), d.Worker)
	to = appendText(append(to, `,"inputs":`...), d.Inputs)
	return append(to, '}')
}

// Text is the data as it is recorded.
func (d *Eligible) Text() json.RawMessage {
	to := make([]byte, 0, 8*min(len(d.Jobs), 1000)+len(`{"jobs":""}`))
	to = append(to, `{"jobs":"`...)
	to = d.Jobs.append(to)
	return append(to, `"}`...)
}

// Text is the data as it is recorded.
func (d *Finished) Text() json.RawMessage {
	to := make([]byte, 0, d.size())
	optional := func(key, text string) {
		if text != "" {
			to = appendText(append(to, key...), text)
		}
	}
	to = appendText(append(to, `{"artifact":`...), d.Artifact)
	to = appendText(append(to, `,"inputs":`...), d.Inputs)
	optional(`,"reused":`, string(d.Reused))
	to = strconv.AppendInt(append(to, `,"size":`...), d.Size, 10)
	to = strconv.AppendInt(append(to, `,"files":`...), int64(d.Files), 10)
	optional(`,"worker":`, d.Worker)
	optional(`,"engine":`, d.Engine)
	optional(`,"image":`, d.Image)
	optional(`,"commit":`, d.Commit)
	if len(d.Metadata) > 0 {
		text, _ := json.Marshal(d.Metadata) // of texts alone, which never fails
		to = append(append(to, `,"metadata":`...), text...)
	}
	optional(`,"provenance":`, d.Provenance)
	optional(`,"pushed":`, d.Pushed)
	optional(`,"log":`, d.Log)
	if d.LogBytes != 0 {
		to = strconv.AppendInt(append(to, `,"log_bytes":`...), d.LogBytes, 10)
	}
	to = strconv.AppendInt(append(to, `,"took":`...), int64(d.Took), 10)
	return append(to, '}')
}

// appendText writes a text as JSON.
func appendText(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(text)
			return append(to, quoted...)
		}
	}
	to = append(append(to, '"'), text...)
	return append(to, '"')
}

func (d *Started) read(text []byte) bool {
	return fields(text, func(key []byte, v value) bool {
		switch string(key) {
		case "worker":
			return v.text(&d.Worker)
		case "inputs":
			return v.text(&d.Inputs)
		default:
			return false
		}
	})
}

func (d *Eligible) read(text []byte) bool {
	return fields(text, func(key []byte, v value) bool {
		return string(key) == "jobs" && v.quoted && d.Jobs.UnmarshalText(v.raw) == nil
	})
}

func (d *Finished) read(text []byte) bool {
	return fields(text, func(key []byte, v value) bool {
		var number int64
		switch string(key) {
		case "artifact":
			return v.text(&d.Artifact)
		case "inputs":
			return v.text(&d.Inputs)
		case "reused":
			return v.text((*string)(&d.Reused))
		case "worker":
			return v.text(&d.Worker)
		case "engine":
			return v.text(&d.Engine)
		case "image":
			return v.text(&d.Image)
		case "commit":
			return v.text(&d.Commit)
		case "provenance":
			return v.text(&d.Provenance)
		case "pushed":
			return v.text(&d.Pushed)
		case "log":
			return v.text(&d.Log)
		case "size":
			return v.number(&d.Size)
		case "log_bytes":
			return v.number(&d.LogBytes)
		case "files":
			ok := v.number(&number)
			d.Files = int(number)
			return ok
		case "took":
			ok := v.number(&number)
			d.Took = time.Duration(number)
			return ok
		default:
			return false
		}
	})
}

// Outcome is that of the data of JobFinished which the machine keeps.
type Outcome struct {
	Artifact string
	Inputs   string
	Reused   bool
	Took     time.Duration
}

// OutcomeOf reads it from the data of JobFinished.
func OutcomeOf(e deploylog.Event) (o Outcome) {
	plain := fields(e.Data, func(key []byte, v value) bool {
		var number int64
		switch string(key) {
		case "artifact":
			return v.text(&o.Artifact)
		case "inputs":
			return v.text(&o.Inputs)
		case "reused":
			o.Reused = len(v.raw) > 0
			return v.quoted
		case "took":
			ok := v.number(&number)
			o.Took = time.Duration(number)
			return ok
		case "worker", "engine", "image", "commit", "provenance", "pushed", "log":
			return v.quoted
		case "size", "log_bytes", "files":
			return v.number(&number)
		default:
			return false
		}
	})
	if plain {
		return o
	}
	d := Decode[Finished](e)
	return Outcome{Artifact: d.Artifact, Inputs: d.Inputs, Reused: d.Reused != "", Took: d.Took}
}

// value is one of an object of JSON.
type value struct {
	raw    []byte // without quotes
	quoted bool
}

func (v value) text(to *string) bool {
	*to = string(v.raw)
	return v.quoted
}

// maxDigits are so few that a number of them is one of 64 bits.
const maxDigits = 18

func (v value) number(to *int64) bool {
	digits := v.raw
	if v.quoted || len(digits) == 0 || len(digits) > maxDigits || digits[0] == '0' && len(digits) > 1 {
		return false
	}
	*to = 0
	for _, c := range digits {
		*to = *to*10 + int64(c-'0')
	}
	return true
}

// fields goes through an object of texts without escapes, and of numbers without signs,
// written without spaces. It reports whether the text is such, and each field is taken.
func fields(text []byte, take func(key []byte, v value) bool) bool {
	if len(text) < 2 || text[0] != '{' {
		return false
	}
	if len(text) == 2 {
		return text[1] == '}'
	}
	for at := 1; ; {
		key, ok := quotedAt(text, at)
		at += len(key) + 2
		if !ok || at >= len(text) || text[at] != ':' {
			return false
		}
		at++
		var v value
		if v.raw, v.quoted = quotedAt(text, at); v.quoted {
			at += len(v.raw) + 2
		} else {
			from := at
			for at < len(text) && '0' <= text[at] && text[at] <= '9' {
				at++
			}
			v.raw = text[from:at]
		}
		if at >= len(text) || !take(key, v) {
			return false
		}
		switch text[at] {
		case ',':
			at++
		case '}':
			return at == len(text)-1
		default:
			return false
		}
	}
}

// quotedAt is the text in quotes that begins at a byte, if it is plain.
func quotedAt(text []byte, at int) ([]byte, bool) {
	if at >= len(text) || text[at] != '"' {
		return nil, false
	}
	for i := at + 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return text[at+1 : i], true
		case c < ' ' || c > '~' || c == '\\':
			return nil, false
		}
	}
	return nil, false
}

// Encode is the data of an event.
func Encode(data any) (json.RawMessage, error) {
	switch d := data.(type) {
	case Started:
		return d.Text(), nil
	case Eligible:
		return d.Text(), nil
	case Finished:
		return d.Text(), nil
	default:
		return json.Marshal(data)
	}
}

// Decode reads the data of an event. Fields that are not known are ignored, and data that
// is not what it should be is none: history is never refused.
func Decode[T any](e deploylog.Event) (data T) {
	if d, ok := any(&data).(reads); ok {
		if d.read(e.Data) {
			return data
		}
		var none T
		data = none
	}
	var read T
	if json.Unmarshal(e.Data, &read) == nil {
		data = read
	}
	return data
}
