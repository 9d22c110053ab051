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

// Room is about how long the data is as it is recorded.
func (d *Finished) Room() int {
	const names = 180 // the names of the fields, and numbers
	return names + len(d.Artifact) + len(d.Inputs) + len(d.Reused) + len(d.Worker) + len(d.Engine) + len(d.Image) + len(d.Commit) + len(d.Provenance) + len(d.Pushed) + len(d.Log)
}

// Room is how long the data is as it is recorded, unless there is something to escape in it.
func (d *Started) Room() int { return len(d.Worker) + len(d.Inputs) + len(`{"worker":"","inputs":""}`) }

// AppendText adds the data as it is recorded.
func (d *Started) AppendText(to []byte) json.RawMessage {
	to = appendText(append(to, `{"worker":`...), d.Worker)
	to = appendText(append(to, `,"inputs":`...), d.Inputs)
	return append(to, '}')
}

// Room is how long the data is as it is recorded, unless it is of very many jobs.
func (d *Eligible) Room() int { return maxNumberDigits*min(len(d.Jobs), 1000) + len(`{"jobs":""}`) }

const maxNumberDigits = len("1000000,")

// AppendText adds the data as it is recorded.
func (d *Eligible) AppendText(to []byte) json.RawMessage {
	to = append(to, `{"jobs":"`...)
	to = d.Jobs.append(to)
	return append(to, `"}`...)
}

// AppendText adds the data as it is recorded.
func (d *Finished) AppendText(to []byte) json.RawMessage {
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
		if !plainly[text[i]].written {
			quoted, _ := json.Marshal(text)
			return append(to, quoted...)
		}
	}
	to = append(append(to, '"'), text...)
	return append(to, '"')
}

// plainly tells of each byte whether it stands for itself where a text is written as JSON, and
// where one is read.
var plainly = func() (all [256]struct{ written, read bool }) {
	for c := ' '; c <= '~'; c++ {
		all[c].read = c != '"' && c != '\\'
		all[c].written = all[c].read && c != '<' && c != '>' && c != '&'
	}
	return all
}()

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

// JobsOf reads the jobs of the data of JobsEligible and JobDependentsEligible into room for it.
func JobsOf(data json.RawMessage, room Numbers) Numbers {
	all := room[:0]
	plain := fields(data, func(key []byte, v value) bool {
		if string(key) != "jobs" || !v.quoted {
			return false
		}
		read, err := appendNumbers(room[:0], v.raw)
		all = read
		return err == nil
	})
	if plain {
		return all
	}
	return Decode[Eligible](deploylog.Event{Data: data}).Jobs
}

// Outcome is that of the data of JobFinished which the machine keeps.
type Outcome struct {
	Artifact string
	Inputs   Hash
	Reused   bool
	Took     time.Duration
}

// Outcome is what OutcomeOf reads of the data once that is written. ok is false where this is
// not known before, for not all texts are read as they were.
func (d *Finished) Outcome() (o Outcome, ok bool) {
	o = Outcome{Artifact: d.Artifact, Inputs: HashOf(d.Inputs), Reused: d.Reused != "", Took: d.Took}
	return o, o.Inputs.form == digest && HashOf(d.Artifact).form == digest
}

// OutcomeOf reads it from the data of JobFinished.
func OutcomeOf(data json.RawMessage) (o Outcome) {
	plain := fields(data, func(key []byte, v value) bool {
		var number int64
		switch string(key) {
		case "artifact":
			return v.text(&o.Artifact)
		case "inputs":
			o.Inputs = HashOf(v.raw)
			return v.quoted
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
	d := Decode[Finished](deploylog.Event{Data: data})
	return Outcome{Artifact: d.Artifact, Inputs: HashOf(d.Inputs), Reused: d.Reused != "", Took: d.Took}
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
		if !plainly[text[i]].read {
			return text[at+1 : i], text[i] == '"'
		}
	}
	return nil, false
}

// Encode is the data of an event.
func Encode(data any) (json.RawMessage, error) {
	switch d := data.(type) {
	case Started:
		return d.AppendText(nil), nil
	case Eligible:
		return d.AppendText(nil), nil
	case Finished:
		return d.AppendText(nil), nil
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
