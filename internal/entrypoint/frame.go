package entrypoint

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// chunk is the most bytes of a piece of framed input.
const chunk = 64 << 10

// frame copies an input so that its reader knows whether it has all of it: in
// pieces, each after its length in four bytes. A length of 0 ends the input.
func frame(to io.Writer, from io.Reader) error {
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

// keepAlive in the place of a length says that the input is still to come.
const keepAlive = ^uint32(0)

// KeepAlive tells the reader of a framed input that the input is still to come.
func KeepAlive(to io.Writer) error {
	_, err := to.Write(binary.BigEndian.AppendUint32(nil, keepAlive))
	return err
}

// unframe is the reverse of frame. It fails with io.ErrUnexpectedEOF for input
// that was cut short.
func unframe(to io.Writer, from io.Reader) error {
	return unframePieces(to, bufio.NewReaderSize(from, 4+chunk), func() {})
}

// unframePieces is unframe for an input after which more comes, of which it reads nothing. It calls
// answer when the sender asks for a sign.
func unframePieces(to io.Writer, framed io.Reader, answer func()) error {
	for {
		var length [4]byte
		if _, err := io.ReadFull(framed, length[:]); err != nil {
			return unexpected(err)
		}
		n := int64(binary.BigEndian.Uint32(length[:]))
		switch {
		case n == int64(keepAlive):
			answer()
			continue
		case n == 0:
			return nil
		case n > chunk:
			return fmt.Errorf("invalid frame: a piece of %d bytes, and the most is %d", n, chunk)
		}
		if _, err := io.CopyN(to, framed, n); err != nil {
			return unexpected(err)
		}
	}
}

// unexpected is the error of a read inside a framed input, which ends with a frame
// and not with the stream.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
