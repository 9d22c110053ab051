package docker

import (
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who closes a socket with something in it that was not read resets it, and what it has sent is
// read all the same.
func TestASocketThatIsResetGivesAllThatWasSent(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	defer l.Close()
	here, err := net.Dial("unix", l.Addr().String())
	require.NoError(t, err)
	defer here.Close()
	there, err := l.Accept()
	require.NoError(t, err)
	if _, err := io.WriteString(here, "input that nobody reads"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(there, "output"); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, there.Close())
	if text, err := io.ReadAll(unreset{here}); string(text) != "output" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
