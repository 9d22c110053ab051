package entrypoint

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// chunk bounds a piece of framed input.
const chunk = 64 << 10

// Frame copies an input so that whoever reads it knows whether that was all: in
// pieces, each after its length in four bytes, the last of which has none.
func Frame(to io.Writer, from io.Reader) error {
	piece := make([]byte, 4+chunk)
	for {
		n, err := from.Read(piece[4:])
		if n > 0 {
			binary.BigEndian.PutUint32(piece, uint32(n))
			if _, err := to.Write(piece[:4+n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			_, err := to.Write(make([]byte, 4))
			return err
		case err != nil:
			return err
		}
	}
}

// alive in the place of a length says that the input is still to come.
const alive = ^uint32(0)

// Alive tells whoever reads a framed input that it is still to come.
func Alive(to io.Writer) error {
	_, err := to.Write(binary.BigEndian.AppendUint32(nil, alive))
	return err
}

// unframe is the reverse of Frame. It fails with io.ErrUnexpectedEOF for input
// that was cut short.
func unframe(to io.Writer, from io.Reader) error {
	framed := bufio.NewReaderSize(from, 4+chunk)
	for {
		var length [4]byte
		if _, err := io.ReadFull(framed, length[:]); err != nil {
			return short(err)
		}
		n := int64(binary.BigEndian.Uint32(length[:]))
		switch {
		case n == int64(alive):
			continue
		case n == 0:
			return nil
		case n > chunk:
			return fmt.Errorf("a piece of %d bytes is none of ours", n)
		}
		if _, err := io.CopyN(to, framed, n); err != nil {
			return short(err)
		}
	}
}

func short(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
