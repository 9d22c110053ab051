package tftest

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/msgpack"
	"google.golang.org/protobuf/encoding/protowire"
)

// fields are the last values of the fields of a message.
func fields(data []byte) map[protowire.Number][]byte {
	all := map[protowire.Number][]byte{}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			panic("the request is no message")
		}
		data = data[n:]
		if kind == protowire.BytesType {
			var value []byte
			value, n = protowire.ConsumeBytes(data)
			all[number] = value
		} else {
			n = protowire.ConsumeFieldValue(number, kind, data)
		}
		data = data[n:]
	}
	return all
}

// message is written by appending to it.
type message []byte

func (m message) bytes(n protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, n, protowire.BytesType), b)
}

func (m message) text(n protowire.Number, s string) message { return m.bytes(n, []byte(s)) }

func (m message) number(n protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, n, protowire.VarintType), v)
}

func (m message) value(n protowire.Number, v cty.Value, t cty.Type) message {
	text, err := msgpack.Marshal(v, t)
	if err != nil {
		panic(fmt.Sprint("encoding a value: ", err))
	}
	return m.bytes(n, message(nil).bytes(1, text))
}

// diagnostic adds an error, or a warning, about an attribute.
func (m message) diagnostic(n protowire.Number, severity uint64, summary, attribute string) message {
	d := message(nil).number(1, severity).text(2, summary)
	if attribute != "" {
		d = d.bytes(4, message(nil).bytes(1, message(nil).text(1, attribute)))
	}
	return m.bytes(n, d)
}

func valueOf(dynamic []byte, t cty.Type) cty.Value {
	v, err := msgpack.Unmarshal(fields(dynamic)[1], t)
	if err != nil {
		panic(fmt.Sprint("decoding a value: ", err))
	}
	return v
}
