package invoke_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner/invoke"
)

func TestMaskedOutputIsTheOutputWithoutItsSecrets(t *testing.T) {
	for name, c := range map[string]struct{ written, want string }{
		"nothing":          {"", ""},
		"lines":            {"a\n\nb\n", "a\n\nb\n"},
		"without an end":   {"a\nb", "a\nb\n"},
		"a secret":         {"it is hunter2!\n", "it is " + invoke.Masked + "!\n"},
		"no text":          {"\x00\xff\xfe\n\x80", "\x00\xff\xfe\n\x80\n"},
		"a long line":      {strings.Repeat("x", 131072) + "\ny\n", strings.Repeat("x", 131072) + "\ny\n"},
		"a secret in it":   {strings.Repeat("x", 131070) + "hunter2" + strings.Repeat("y", 300000) + "\nz", strings.Repeat("x", 131070) + invoke.Masked + strings.Repeat("y", 300000) + "\nz\n"},
		"carriage returns": {"a\rb\r\n", "a\rb\n"},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			if size == 1 && len(c.written) > 1000 {
				continue // it takes long
			}
			secrets := &invoke.Secrets{}
			secrets.Add("hunter2", [][]string{{}})
			var got strings.Builder
			w, flush := secrets.Masked(&got)
			for rest := c.written; rest != ""; {
				n := min(size, len(rest))
				must.Get(io.WriteString(w, rest[:n]))(t)
				rest = rest[n:]
			}
			if err := flush(); err != nil || got.String() != c.want {
				t.Errorf("%s, %d bytes at once: %.80q (%d bytes), %v; want %.80q (%d bytes)", name, size, got.String(), got.Len(), err, c.want, len(c.want))
			}
		}
	}
}

func TestMaskedOutputThatCannotBeWrittenFails(t *testing.T) {
	full := errors.New("full")
	w, flush := (&invoke.Secrets{}).Masked(failingWriter{full})
	assert.ErrorIs(t, must.Fail(io.Copy(w, iotest.OneByteReader(strings.NewReader("a\nb\n")))), full)
	assert.ErrorIs(t, flush(), full)
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
