package entrypoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
)

// Pod says what the shim of a Pod runs, and when.
type Pod struct {
	Idle  time.Duration // how long the shim waits without a sign of its caller
	Whole bool          `json:",omitempty"` // the program starts when all of its input is there
	User  string        `json:",omitempty"` // USER[:GROUP] that the program runs as, by the files of its image; "" is that of the shim
	Home  bool          `json:",omitempty"` // set HOME to the user's
}

// Prepare says what is to be prepared for the program of a Pod.
type Prepare struct {
	Idle  time.Duration
	Shim  string // where this program's file is put
	Files string `json:",omitempty"` // a directory, into which the files of a tar are put that comes as an input; "" is none
}

// Arguments returns the arguments of the shim. The program and its arguments are to follow.
func (p Pod) Arguments() []string { return []string{Word, rolePod, encode(p)} }

// Arguments returns the arguments of a process that prepares.
func (p Prepare) Arguments() []string { return []string{Word, rolePrepare, encode(p)} }

func encode(role any) string {
	encoded, err := json.Marshal(role)
	if err != nil {
		panic(err) // texts and numbers can be encoded
	}
	return string(encoded)
}

// Kind is what a message of a shim in a Pod is about.
type Kind byte

// The kinds of messages.
const (
	Attached Kind = 'A' // an answer to KeepAlive: what is written reaches the caller
	Started  Kind = 'S' // the program may run from now on: it has the input that it was to wait for
	Stdout   Kind = 'O' // what the program has written
	Stderr   Kind = 'E'
	Ended    Kind = 'X' // the exit code of the program, in decimal; nothing of it runs any more
	Refused  Kind = 'F' // why there is no program
	Cut      Kind = 'C' // why the input did not arrive: the program never ran, and another Pod may run it
)

// largestMessage is the most bytes of a message, without its head.
const largestMessage = 64 << 10

// A message is mark, kind, number, a space, the content, mark, period and a line feed. Containers have
// logs by lines: runtimes keep a line back until it ends, and drop a carriage return at its end. So
// there is no carriage return in a message, and in its content no mark.
const (
	mark       = 0x10
	markedMark = 'd'
	markedCR   = 'r'
)

var (
	messageEnd = []byte{mark, '.'}
	encoder    = strings.NewReplacer(string(rune(mark)), string([]byte{mark, markedMark}), "\r", string([]byte{mark, markedCR}))
)

// message is a message as it is written.
func message(kind Kind, number uint64, content []byte) []byte {
	content = content[:min(len(content), largestMessage)]
	written := append(make([]byte, 0, len(content)+32), mark, byte(kind))
	written = append(strconv.AppendUint(written, number, 10), ' ')
	if bytes.IndexByte(content, mark) < 0 && bytes.IndexByte(content, '\r') < 0 {
		written = append(written, content...)
	} else {
		written = append(written, encoder.Replace(string(content))...)
	}
	return append(append(written, messageEnd...), '\n')
}

// Receiver takes the output of a shim apart into its messages, however it is cut into pieces.
type Receiver struct {
	// Take gets the messages in their order, with the number of each from 0 on. Attached does not
	// count: its number is that of the next message. Take must not keep the content.
	Take func(kind Kind, number uint64, content []byte) error

	// Other, if set, gets what is no message. Without it that is an error.
	Other func(text []byte)

	begun   []byte
	scanned int // of what has begun: the end of the message is not in it
}

// Write implements io.Writer.
func (r *Receiver) Write(p []byte) (int, error) {
	r.begun = append(r.begun, p...)
	for {
		if err := r.skip(); err != nil {
			return 0, err
		}
		end := bytes.Index(r.begun[r.scanned:], messageEnd)
		if end < 0 {
			break
		}
		end += r.scanned
		if err := r.message(r.begun[1:end]); err != nil {
			return 0, err
		}
		r.begun, r.scanned = r.begun[end+len(messageEnd):], 0
	}
	if len(r.begun) == 0 {
		r.begun = nil // what was taken need not be kept
	}
	if r.scanned = max(0, len(r.begun)-1); r.scanned > 2*largestMessage+64 {
		return 0, errNoMessage
	}
	return len(p), nil
}

// skip drops what comes before the next message.
func (r *Receiver) skip() error {
	dropped := 0
	for dropped < len(r.begun) && !begins(r.begun[dropped:]) {
		dropped++
	}
	other := bytes.Trim(r.begun[:dropped], "\n")
	if len(other) > 0 && r.Other == nil {
		return errNoMessage
	}
	if len(other) > 0 {
		r.Other(other)
	}
	if dropped > 0 {
		r.begun, r.scanned = r.begun[dropped:], 0
	}
	return nil
}

// begins reports whether a text may begin a message, as far as it is there.
func begins(text []byte) bool {
	return text[0] == mark && (len(text) == 1 || 'A' <= text[1] && text[1] <= 'Z')
}

// message takes a message without its marks.
func (r *Receiver) message(text []byte) error {
	head, content, _ := bytes.Cut(text, []byte{' '})
	if len(head) < 2 {
		return errNoMessage
	}
	number, err := strconv.ParseUint(string(head[1:]), 10, 64)
	if err != nil {
		return errNoMessage
	}
	if content, err = decode(content); err != nil {
		return err
	}
	kind := Kind(head[0])
	switch kind {
	case Attached, Started, Stdout, Stderr, Refused, Cut:
	case Ended:
		if _, err := strconv.ParseUint(string(content), 10, 31); err != nil {
			return errNoMessage
		}
	default:
		return errNoMessage
	}
	if len(content) > largestMessage {
		return errNoMessage
	}
	return r.Take(kind, number, content)
}

// decode returns a content as it was before it was written.
func decode(content []byte) ([]byte, error) {
	var decoded []byte
	for {
		at := bytes.IndexByte(content, mark)
		switch {
		case at < 0 && decoded == nil:
			return content, nil
		case at < 0:
			return append(decoded, content...), nil
		case at+1 == len(content):
			return nil, errNoMessage
		}
		decoded = append(decoded, content[:at]...)
		switch content[at+1] {
		case markedMark:
			decoded = append(decoded, mark)
		case markedCR:
			decoded = append(decoded, '\r')
		default:
			return nil, errNoMessage
		}
		content = content[at+2:]
	}
}

// errNoMessage is the error of an output that is not a shim's.
var errNoMessage = errors.New("the output is not that of the entrypoint shim")

// Code is the exit code of a message that the program has ended.
func Code(content []byte) int {
	code, err := strconv.Atoi(string(content))
	if err != nil {
		return Failed // a Receiver takes no such message
	}
	return code
}

// begin in the place of a length says that a program whose input goes on is to start.
const begin = ^uint32(0) - 2

// Begin tells a shim to start a program that does not rely on its input.
func Begin(to io.Writer) error {
	_, err := to.Write(binary.BigEndian.AppendUint32(nil, begin))
	return err
}

// done in the place of a length says that the caller has taken all messages.
const done = ^uint32(0) - 1

// Done tells a shim that its caller has read how the program ended: it need not wait any longer.
func Done(to io.Writer) error {
	_, err := to.Write(binary.BigEndian.AppendUint32(nil, done))
	return err
}
