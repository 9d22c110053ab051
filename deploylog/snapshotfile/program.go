package snapshotfile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
)

// program tells this program from all others and from its other versions, of which each may
// leave out other events; "" is that it cannot be told. The head of an executable holds the
// identity that the linker gave it.
var program = sync.OnceValue(func() string {
	const head = 64 << 10
	f, err := os.Open("/proc/self/exe") // the running one, also after another took its place
	if err != nil {
		path, err := os.Executable()
		if err != nil {
			return ""
		}
		if f, err = os.Open(path); err != nil {
			return ""
		}
	}
	defer f.Close() //nolint:errcheck // opened for reading
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	text := &bytes.Buffer{}
	if _, err := io.CopyN(text, f, head); err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	built := ""
	if b, ok := debug.ReadBuildInfo(); ok {
		built = b.String()
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%s", info.Size(), built, text.Bytes())))
})
