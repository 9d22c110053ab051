package feed

import (
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
)

// What is kept is bounded in fact: large events that follow many small ones do not stay in
// the room that these had.
func TestWhatIsCutOffIsGivenBack(t *testing.T) {
	o, r := Options{Events: 10_000, Bytes: 4000}, &reader{}
	var texts []weak.Pointer[byte]
	for seq := range 1200 {
		size := 4
		if seq >= 1100 {
			size = 1000
		}
		text := make([]byte, size)
		if size > 4 {
			texts = append(texts, weak.Make(&text[0]))
		}
		r.add(Item{Event: deploylog.Event{Seq: int64(seq)}, Text: text}, o)
	}
	runtime.GC()
	held := 0
	for _, text := range texts {
		if text.Value() != nil {
			held++
		}
	}
	assert.True(t, len(r.kept) == 4 && held <= 9, "of %d large events %d are kept, and %d are held", len(texts), len(r.kept), held)
	runtime.KeepAlive(r)
}
