package entrypoint

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
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
	Stdout   Kind = 'O' // what the program has written
	Stderr   Kind = 'E'
	Ended    Kind = 'X' // the exit code of the program, in four bytes; nothing of it runs any more
	Refused  Kind = 'F' // why there is no program
)

// largestMessage is the most bytes of a message, without its head.
const largestMessage = 64 << 10

// message is a message as it is written: kind and length come before its content.
func message(kind Kind, content []byte) []byte {
	head := binary.BigEndian.AppendUint32([]byte{byte(kind)}, uint32(min(len(content), largestMessage)))
	return append(head, content[:min(len(content), largestMessage)]...)
}

// Receiver takes the output of a shim apart into its messages, however it is cut into pieces.
type Receiver struct {
	Take func(kind Kind, content []byte) error // must not keep the content

	begun []byte
}

// Write implements io.Writer.
func (r *Receiver) Write(p []byte) (int, error) {
	r.begun = append(r.begun, p...)
	for len(r.begun) >= 5 {
		kind, length := Kind(r.begun[0]), binary.BigEndian.Uint32(r.begun[1:])
		switch kind {
		case Attached, Stdout, Stderr, Ended, Refused:
		default:
			return 0, errNoMessage
		}
		if length > largestMessage || kind == Ended && length != 4 {
			return 0, errNoMessage
		}
		if len(r.begun) < int(5+length) {
			break
		}
		if err := r.Take(kind, r.begun[5:5+length]); err != nil {
			return 0, err
		}
		r.begun = r.begun[5+length:]
	}
	if len(r.begun) == 0 {
		r.begun = nil // what was taken need not be kept
	}
	return len(p), nil
}

// errNoMessage is the error of an output that is not a shim's.
var errNoMessage = errors.New("the output is not that of the entrypoint shim")

// Code is the exit code of a message that the program has ended.
func Code(content []byte) int { return int(binary.BigEndian.Uint32(content)) }

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
