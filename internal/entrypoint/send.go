package entrypoint

import (
	"errors"
	"fmt"
	"io"
)

// Send copies an input to a container and then calls finish, which closes it. The
// input is framed for a container that is to have all of it or none. A container
// need not read its input, so a failed write is no failure. A failed read is one,
// because the container would take what came before for the whole input.
func Send(to io.Writer, from io.Reader, framed bool, finish func() error) error {
	input := &source{reader: from}
	if framed {
		_ = frame(to, input)
	} else {
		_, _ = io.Copy(to, input)
	}
	if input.err != nil {
		return fmt.Errorf("read what the container gets on stdin: %w", input.err)
	}
	_ = finish()
	return nil
}

// source remembers why reading failed.
type source struct {
	reader io.Reader
	err    error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
