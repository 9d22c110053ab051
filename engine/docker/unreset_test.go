package docker

import (
	"io"
	"net"
	"path/filepath"
	"testing"
)

// Who closes a socket with something in it that was not read resets it, and what it has sent is
// read all the same.
func TestASocketThatIsResetGivesAllThatWasSent(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(here, "input that nobody reads"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(there, "output"); err != nil {
		t.Fatal(err)
	}
	if err := there.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(unreset{here}); string(text) != "output" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
