package compact_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/build/compact"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers, texts := rapid.SliceOf(rapid.Int64()).Draw(t, "numbers"), rapid.SliceOf(rapid.String()).Draw(t, "texts")
		flags := rapid.SliceOfN(rapid.Bool(), 3, 3).Draw(t, "flags")
		at := time.Unix(0, rapid.Int64Min(0).Draw(t, "at")).UTC()
		w := &compact.Writer{}
		w.Count(len(numbers))
		for _, n := range numbers {
			w.Number(n)
		}
		w.Count(len(texts))
		for _, text := range texts {
			w.Text(text)
			w.Data([]byte(text))
		}
		w.Data(nil)
		w.Flags(flags...)
		w.Moment(at)
		w.Moment(time.Time{})
		w.JSON(texts)
		r := &compact.Reader{Rest: string(w.To)}
		for i := range r.Count() {
			require.Equal(t, numbers[i], r.Number(), "is read as")
		}
		for i := range r.Count() {
			if got, data := r.Text(), r.Data(); got != texts[i] || data == nil || !bytes.Equal(data, []byte(got)) {
				t.Fatalf("%q is read as %q and %q", texts[i], got, data)
			}
		}
		require.Nil(t, r.Data(), "none is read as some")
		flag := r.Flags()
		for i, is := range flags {
			require.Equal(t, is, flag(), "flag %d is not %v", i, is)
		}
		var again []string
		got, never := r.Moment(), r.Moment()
		require.True(t, got.Equal(at) && never.IsZero(), "%s is read as %s, and never as %s", at, got, never)
		r.JSON(&again)
		require.True(t, !r.Bad && r.Rest == "" && len(again) == len(texts), "%q is left, and %q read", r.Rest, again)
	})
}

// What is damaged is bad, takes no more memory than it has bytes, and ends.
func FuzzReader(f *testing.F) {
	w := &compact.Writer{}
	w.Text("text")
	w.Data([]byte("data"))
	w.JSON(map[string]int{"a": 1})
	f.Add(w.To)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &compact.Reader{Rest: string(data)}
		for r.Rest != "" && !r.Bad {
			before := len(r.Rest)
			n, text, data := r.Count(), r.Text(), r.Data()
			var value any
			r.JSON(&value)
			if r.Moment(); n < 0 || n > before || len(text)+len(data) > before {
				t.Fatalf("of %d bytes %d are counted, and %d are texts", before, n, len(text)+len(data))
			}
		}
	})
}

func TestMomentsAreTimes(t *testing.T) {
	for _, at := range []time.Time{{}, time.Date(2020, 3, 6, 0, 26, 55, 123456789, time.UTC), time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)} {
		got := compact.MomentOf(at).Time()
		assert.True(t, got.Equal(at) && got.IsZero() == at.IsZero(), "%v is %v", at, got)
	}
}
