package docker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The messages to an ssh process through its control socket (PROTOCOL.mux of OpenSSH). They
// need no process of their own, and what they set up is apart from the user's forwardings.
const (
	muxHello   = 0x00000001
	muxAlive   = 0x10000004
	muxForward = 0x10000006

	muxOK        = 0x80000001
	muxDenied    = 0x80000002
	muxFailure   = 0x80000003
	muxAliveHere = 0x80000005

	muxVersion      = 4
	muxLocal        = 1          // a forwarding whose listener is here
	muxStreamSocket = 0xfffffffe // in place of a port: the host is a path
	muxLongest      = 64 << 10   // of a message, in bytes
)

// controlTime bounds a conversation with an ssh process of this machine.
const controlTime = 10 * time.Second

// errControl is wrapped when an ssh process does not answer as it should.
var errControl = errors.New("no answer at the control socket of ssh")

// forwardSocket has an ssh process listen at a local path, and connect to a far one for each
// connection there.
func forwardSocket(ctx context.Context, control, local, far string) error {
	request := binary.BigEndian.AppendUint32(nil, muxLocal)
	for _, path := range []string{local, far} {
		request = appendText(request, path)
		request = binary.BigEndian.AppendUint32(request, muxStreamSocket)
	}
	kind, answer, err := ask(ctx, control, muxForward, request)
	switch {
	case err != nil:
		return err
	case kind == muxOK:
		return nil
	case (kind == muxFailure || kind == muxDenied) && len(answer) > 4:
		return fmt.Errorf("forward the socket %s: ssh: %s", far, answer[4:])
	default:
		return fmt.Errorf("forward the socket %s: %w: message %#x", far, errControl, kind)
	}
}

// askAlive asks an ssh process whether it is still there.
func askAlive(ctx context.Context, control string) error {
	kind, _, err := ask(ctx, control, muxAlive, nil)
	if err == nil && kind != muxAliveHere {
		err = fmt.Errorf("%w: message %#x", errControl, kind)
	}
	return err
}

// ask sends a request, and returns kind and content of the answer.
func ask(ctx context.Context, control string, request uint32, content []byte) (uint32, []byte, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", control)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errControl, err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := conn.SetDeadline(time.Now().Add(controlTime)); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errControl, err)
	}
	const id = 1
	sent := append(muxMessage(muxHello, binary.BigEndian.AppendUint32(nil, muxVersion)),
		muxMessage(request, append(binary.BigEndian.AppendUint32(nil, id), content...))...)
	if _, err := conn.Write(sent); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errControl, err)
	}
	for {
		kind, answer, err := readMessage(conn)
		if err != nil {
			return 0, nil, fmt.Errorf("%w: %w", errControl, err)
		}
		if kind == muxHello {
			continue
		}
		if len(answer) < 4 || binary.BigEndian.Uint32(answer) != id {
			return 0, nil, fmt.Errorf("%w: an answer to another request", errControl)
		}
		return kind, answer[4:], nil
	}
}

func muxMessage(kind uint32, content []byte) []byte {
	framed := binary.BigEndian.AppendUint32(nil, uint32(4+len(content)))
	return append(binary.BigEndian.AppendUint32(framed, kind), content...)
}

func readMessage(from io.Reader) (kind uint32, content []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[:4])
	if size < 4 || size > muxLongest {
		return 0, nil, fmt.Errorf("a message of %d bytes", size)
	}
	content = make([]byte, size-4)
	_, err = io.ReadFull(from, content)
	return binary.BigEndian.Uint32(head[4:]), content, err
}

func appendText(to []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(text))), text...)
}
