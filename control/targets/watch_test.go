package targets_test

import (
	"testing"
	"time"
)

// A watch that has ended by itself, such as with the connection of its host, begins again with the
// next look, and is the only one of its host.
func TestAWatchThatHasEndedBeginsAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hosts = []string{"a"}
		w.use("1")
		w.wants(time.Second, "a: none, for revision 1: web is not as configured.")
		w.set(func() {
			close(w.breaks)
			w.breaks = make(chan struct{})
		})
		w.after(2 * time.Second)
		w.set(func() {
			if len(w.watches) != 0 {
				t.Errorf("%d watches, though they have ended", len(w.watches))
			}
		})
		w.after(time.Minute)
		w.set(func() {
			if w.begun != 2 || w.watches["a"] == nil {
				t.Fatalf("%d watches have begun, and %d are under way", w.begun, len(w.watches))
			}
			w.runs["a"] = []string{"1"}
			w.watches["a"]()
		})
		w.wants(5*time.Second, "a: 1.")
		w.after(time.Hour)
		w.set(func() {
			if w.begun != 2 {
				t.Errorf("%d watches have begun", w.begun)
			}
		})
	})
}
