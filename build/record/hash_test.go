package record_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
)

// A hash is as good as its text: two are equal where their texts are.
func TestHashesTellTextsApart(t *testing.T) {
	zeros := "sha256:" + strings.Repeat("0", 64)
	hashed := record.HashOf("a").String() // as somebody may write it who wants to be taken for "a"
	texts := []string{
		"", "a", "b", zeros, zeros[:70], zeros + "0", strings.ToUpper(zeros), zeros[:70] + "A", zeros[:70] + "a", zeros[:70] + "g", "sha512:" + zeros[7:],
		hashed, "sha256:" + strings.TrimPrefix(hashed, "text:"),
	}
	for _, one := range texts {
		for _, other := range texts {
			if (record.HashOf(one) == record.HashOf([]byte(other))) != (one == other) {
				t.Errorf("%q and %q are taken for each other, or not for themselves", one, other)
			}
		}
	}
	if record.HashOf("") != (record.Hash{}) || record.HashOf(zeros) == (record.Hash{}) {
		t.Error("nothing but the empty text is no hash")
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`sha256:[0-9a-f]{64}`).Draw(t, "digest")
		assert.Equal(t, text, record.HashOf(text).String(), "is written as")
	})
}

func TestTargetsOfAGroupAreThoseOfItsJobs(t *testing.T) {
	for _, id := range []string{"a-1", "core/base-7", strings.Repeat("long", 1<<18)} {
		for _, count := range []int{0, 1, 12, 101} {
			all := record.TargetsOf(id, count)
			for _, n := range []int{1, 2, 9, 10, 11, 100, count + 1} {
				if n > count+1 {
					continue
				}
				if got, want := all.Job(n), record.Job(id, n); got != want {
					t.Fatalf("job %d of %d is %.40q, want %.40q", n, count, got, want)
				}
			}
		}
	}
	var none record.Targets
	if got := none.Job(1); got != deploylog.Target("job//1") {
		t.Errorf("the job of no group is %q", got)
	}
}
