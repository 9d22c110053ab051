package work

import (
	"context"
	"errors"
	"testing"
)

// Whoever was the first to ask for an engine may give up; that is not the fault of
// those who waited for it.
func TestAnEngineIsOpenedThoughWhoAskedFirstGaveUp(t *testing.T) {
	p := NewEnginePool(NewHosts("none.yaml"), nil)
	first, second := &pooled{err: context.Canceled}, &pooled{connection: &Connection{}}
	for _, c := range []*pooled{first, second} {
		c.once.Do(func() {})
	}
	key := poolKey{host: "one"}
	p.opened[key] = first
	if _, err := p.Connection(t.Context(), "one"); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("it was not tried again: %v", err)
	}
	p.opened[key] = second
	if got, err := p.Connection(t.Context(), "one"); got != second.connection || err != nil {
		t.Errorf("the engine that is open was not taken: %v", err)
	}
}
