//go:build !unix

package protocol

import "io"

// polled reads what stdin does.
func polled(stdin io.Reader) io.ReadCloser { return io.NopCloser(stdin) }
