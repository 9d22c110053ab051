package killloop

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/stretchr/testify/require"
)

// line is what the type writes into its journal.
type line struct {
	Event, Action, Host, File, For, Content string
}

func (w *world) journal() (all []line) {
	w.Helper()
	text, err := os.ReadFile(w.path("all", "journal"))
	require.NoError(w, err)
	for l := range strings.Lines(string(text)) {
		var one line
		require.NoError(w, json.Unmarshal([]byte(l), &one))
		all = append(all, one)
	}
	return all
}

// checkJournal checks that nothing was done twice at once, nor for two revisions at once
// where one may be, and that every host of a revision got the bytes that it was released
// with.
func (w *world) checkJournal(released map[string]string) {
	w.Helper()
	for _, l := range w.journal() {
		want := strings.ReplaceAll(released[l.For+" "+l.File], "HOST", l.Host)
		if released[l.For+" "+l.File] == "" {
			want = strings.ReplaceAll(released[l.For], "HOST", l.Host)
		}
		switch {
		case l.Event == "twice" || strings.HasPrefix(l.Event, "beside"):
			w.Errorf("%s of %s on %s for %s: %s", l.Action, l.File, l.Host, l.For, l.Event)
		case l.Content != want:
			w.Errorf("%s of %s on %s for %s with %q, which was released with %q", l.Action, l.File, l.Host, l.For, l.Content, want)
		}
	}
}

// file is what a host has; "" is none.
func (w *world) file(host, name string) string {
	text, _ := os.ReadFile(w.path("hosts", host, name))
	return string(text)
}

// answer runs a command that answers as JSON.
func answer[T any](w *world, args ...string) (t T) {
	w.Helper()
	out, err := w.command(append(args, "--output", "json")...).Output()
	require.NoError(w, err, "deployster %s: %v\n%s", strings.Join(args, " "), err, out)
	if err := json.Unmarshal(out, &t); err != nil {
		w.Fatalf("deployster %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return t
}
