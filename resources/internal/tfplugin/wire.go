package tfplugin

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is a message of Protocol Buffers that is being written. Fields with the value
// that they have by default are left out, as that format has it.
type message []byte

func (m *message) text(number protowire.Number, s string) {
	if s != "" {
		*m = protowire.AppendString(protowire.AppendTag(*m, number, protowire.BytesType), s)
	}
}

func (m *message) bytes(number protowire.Number, b []byte) {
	if len(b) > 0 {
		m.message(number, b)
	}
}

// message adds a message, which is there also if it is empty.
func (m *message) message(number protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, number, protowire.BytesType), b)
}

func (m *message) number(number protowire.Number, n int64) {
	if n != 0 {
		*m = protowire.AppendVarint(protowire.AppendTag(*m, number, protowire.VarintType), uint64(n))
	}
}

// field is one of a message that is read: a number or bytes, whichever the field has.
type field struct {
	number int
	value  uint64
	bytes  []byte
}

func (f field) text() string { return string(f.bytes) }
func (f field) flag() bool   { return f.value != 0 }
func (f field) int() int64   { return int64(f.value) }

// eachField calls do with the fields of a message.
func eachField(data []byte, do func(field) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return fmt.Errorf("it is not a message of Protocol Buffers: %w", protowire.ParseError(n))
		}
		data = data[n:]
		f := field{number: int(number)}
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(data)
		default:
			n = protowire.ConsumeFieldValue(number, kind, data)
		}
		if n < 0 {
			return fmt.Errorf("it is not a message of Protocol Buffers: %w", protowire.ParseError(n))
		}
		data = data[n:]
		if err := do(f); err != nil {
			return err
		}
	}
	return nil
}
