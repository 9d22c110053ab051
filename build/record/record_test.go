package record_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
)

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		target deploylog.Target
		id     string
		number int
		ok     bool
	}{
		{record.Group("base-7"), "base-7", 0, true},
		{record.Job("core/base-7", 12), "core/base-7", 12, true},
		{"job/base-7", "", 0, false},
		{"job//1", "", 0, false},
		{"job/base-7/0", "", 0, false},
		{"job/base-7/01", "", 0, false},
		{"job/base-7/+1", "", 0, false},
		{"group/", "", 0, false},
		{"group", "", 0, false},
		{"stage/base/7", "", 0, false},
	} {
		id, number, ok := record.Parse(c.target)
		if id != c.id && c.ok || number != c.number && c.ok || ok != c.ok {
			t.Errorf("%s is %q, %d, %t", c.target, id, number, ok)
		}
	}
}

func TestNumbersAreRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n record.Numbers
		last := 0
		for _, step := range rapid.SliceOf(rapid.IntRange(1, 3)).Draw(t, "steps") {
			last += step
			n = append(n, last)
		}
		text, _ := n.MarshalText()
		var got record.Numbers
		require.NoError(t, got.UnmarshalText(text), "%v was %s, and is %v", n, text, got)
		assert.Equal(t, n, got, "%v was %s, and is %v", n, text, got)
	})
}

func TestNumbersThatAreNone(t *testing.T) {
	for _, text := range []string{"0", "2,1", "1-", "-1", "3-2", "1,,2", "x", "1-1000001", "1-5,5", "01", "+1", " 1"} {
		var n record.Numbers
		assert.Error(t, n.UnmarshalText([]byte(text)), "%q is %v", text, n)
	}
}

// Whatever text there is, it is read within bounds or refused.
func FuzzNumbers(f *testing.F) {
	f.Add("1-500,502")
	f.Fuzz(func(t *testing.T, text string) {
		var n record.Numbers
		if n.UnmarshalText([]byte(text)) != nil {
			return
		}
		for i := range n {
			if n[i] < 1 || i > 0 && n[i] <= n[i-1] {
				t.Fatalf("%q is %v", text, n)
			}
		}
	})
}

func TestDataThatIsNoneIsEmpty(t *testing.T) {
	for _, data := range []string{"", "[]", `{"jobs":"2,1"}`, strings.Repeat("[", 10000)} {
		assert.Nil(t, record.Decode[record.Eligible](deploylog.Event{Data: []byte(data)}).Jobs, "%.20q", data)
	}
}
