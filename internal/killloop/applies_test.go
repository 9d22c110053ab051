package killloop

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An apply on a log in a database is killed in the middle, again and again. The next one finds what
// the last has begun, waits for it, and goes on: no action is done beside another, and all has an end.
func TestAppliesGoOnWhereTheLastOneWasKilled(t *testing.T) {
	rounds(t, 10, func(w *world, kills int) {
		w.inDatabase()
		require.NoError(t, os.MkdirAll(w.path("hosts", "x"), 0o700))
		released := map[string]string{}
		next := func(n int) {
			var text strings.Builder
			text.WriteString("plugs: {dir: {path: hosts/x}, all: {path: all}}\nresources:\n")
			for i, file := range []string{"a", "b", "c"} {
				fmt.Fprintf(&text, "  %s: {type: journal:1, dependencies: {%s}, config: {file: %s, host: x, for: site %d, alone: site, wait: 150, value: %s %d}}\n",
					file, []string{"", "before: a", "before: b"}[i], file, n, file, n)
			}
			w.write("site.yaml", text.String())
			released[fmt.Sprintf("site %d", n)] = "released"
			for _, file := range []string{"a", "b", "c"} {
				released[fmt.Sprintf("site %d %s", n, file)] = fmt.Sprintf("%s %d image=0", file, n)
			}
		}
		n := 1
		for next(n); w.killed < kills; next(n) {
			w.work("apply", "site.yaml", "--confirm", "NO", "--engine", "oci")
			w.busy(2 * time.Second)
			one := w.workers[0]
			w.workers = nil
			select {
			case err := <-one.done: // it was quicker
				if err != nil {
					text, _ := os.ReadFile(one.log)
					w.Fatalf("%v\n%.4000s", err, text)
				}
			default:
				_ = one.Process.Kill()
				<-one.done
				w.killed++
			}
			if w.IntN(2) == 0 {
				n++
			}
		}
		w.must("apply", "site.yaml", "--confirm", "NO", "--engine", "oci")
		for _, file := range []string{"a", "b", "c"} {
			if got, want := w.file("x", file), fmt.Sprintf("%s %d image=0", file, n); got != want {
				w.Errorf("there is %q, want %q", got, want)
			}
		}
		w.checkRuns(w.events())
		w.checkJournal(released)
	})
}
