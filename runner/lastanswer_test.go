package runner_test

import (
	"testing"

	"github.com/deployster-go/deployster/runner/inits"
)

// What a type answered last is known by its reference, to commands that run nothing.
func TestWhatATypeAnsweredLastIsKnownByItsReference(t *testing.T) {
	w := newWorld(t)
	cache := &memory{answers: map[string][]byte{}}
	var version string
	r := w.runner(t, many(2, "thing"), func(o *options) { o.InitCache, version = cache, o.Version })
	if _, err := r.Plan(t.Context()); err != nil {
		t.Fatal(err)
	}
	answer, ok := inits.Last(cache, version, "thing")
	if !ok || answer.Schema == nil || len(answer.ConfigSchema) == 0 {
		t.Errorf("got %+v, %t", answer, ok)
	}
	for _, unknown := range [][2]string{{version, "other"}, {version + "x", "thing"}} {
		if _, ok := inits.Last(cache, unknown[0], unknown[1]); ok {
			t.Errorf("%v is known", unknown)
		}
	}
	for key := range cache.answers {
		cache.answers[key] = []byte(`{"state_action":{"args":["state"]},"config_schema":{"type":7}}`)
	}
	if _, ok := inits.Last(cache, version, "thing"); ok {
		t.Error("a damaged answer is believed")
	}
}
