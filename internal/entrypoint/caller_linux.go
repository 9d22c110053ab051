package entrypoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// caller is whoever has started the shim of a Pod, at the other end of its streams.
//
// A container's output reaches whoever is attached to it, and what it wrote last may be lost when it
// ends. So the shim is silent until it is called, and ends when it is told that all that it wrote was
// read, or when its caller is gone, who reads the log of the container then.
type caller struct {
	in *descriptor

	mu   sync.Mutex // so that each message is written whole
	out  *os.File
	said uint64 // how many messages, but for answers
}

func newCaller(idle time.Duration) *caller {
	return &caller{in: &descriptor{fd: int(os.Stdin.Fd()), idle: idle}, out: os.Stdout}
}

func (c *caller) say(kind Kind, content []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.out.Write(message(kind, c.said, content))
	if kind != Attached {
		c.said++
	}
	return err
}

// answer tells the caller that it is heard.
func (c *caller) answer() { _ = c.say(Attached, nil) }

// hear waits for the first sign of the caller, and answers it.
func (c *caller) hear() error {
	length, err := readLength(c.in)
	if err != nil {
		return fmt.Errorf("wait for the caller: %w", err)
	}
	if length != keepAlive {
		return errors.New("wait for the caller: it speaks of something else")
	}
	return c.say(Attached, nil)
}

// input answers the caller until the input comes, and returns that, framed.
func (c *caller) input() (io.Reader, error) {
	for {
		length, err := readLength(c.in)
		if err != nil {
			return nil, fmt.Errorf("wait for the input: %w", err)
		}
		if length != keepAlive {
			return io.MultiReader(newLength(length), c.in), nil
		}
		if err := c.say(Attached, nil); err != nil {
			return nil, err
		}
	}
}

// fail tells the caller why there is no program, and returns the code to end with.
func (c *caller) fail(err error) int {
	kind := Refused
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(silence)) {
		kind = Cut
	}
	if c.say(kind, []byte(err.Error())) == nil {
		c.farewell(c.in)
	}
	return Failed
}

// farewell returns when the caller has read everything, or is gone. What is left of the input
// is dropped.
func (c *caller) farewell(framed io.Reader) {
	for {
		length, err := readLength(framed)
		if err != nil || length == done {
			return
		}
		if length != keepAlive && length != begin {
			if _, err := io.CopyN(io.Discard, framed, int64(length)); err != nil {
				return
			}
		}
	}
}

func readLength(from io.Reader) (uint32, error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return 0, unexpected(err)
	}
	return binary.BigEndian.Uint32(length[:]), nil
}
