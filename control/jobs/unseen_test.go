package jobs_test

import "testing"

// What has ended while nobody looked took as long as its engine says.
func TestHowLongItTookIsKnownOfWhatEndedUnseen(t *testing.T) {
	fake := fakeEngine()
	w := newWorld(t, fake)
	w.leave(fake, "1")(0)
	r := w.jobs.Resume(t.Context(), w.task(w.recipe()))
	w.wants(r, "finished")
	if r.Finished != nil && r.Finished.Took <= 0 {
		t.Errorf("it took %s", r.Finished.Took)
	}
	w.clean()
}
