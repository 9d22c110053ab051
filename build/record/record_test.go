package record_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
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
		assert.True(t, (id == c.id || !c.ok) && (number == c.number || !c.ok) && ok == c.ok, "%s is %q, %d, %t", c.target, id, number, ok)
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
			require.True(t, n[i] >= 1 && (i <= 0 || n[i] > n[i-1]), "%q is %v", text, n)
		}
	})
}

func TestDataThatIsNoneIsEmpty(t *testing.T) {
	for _, data := range []string{"", "[]", `{"jobs":"2,1"}`, strings.Repeat("[", 10000)} {
		assert.Nil(t, record.Decode[record.Eligible](deploylog.Event{Data: []byte(data)}).Jobs, "%.20q", data)
	}
}

func TestHashesTellTextsApart(t *testing.T) {
	zeros := "sha256:" + strings.Repeat("0", 64)
	hashed := record.HashOf("a").String() // as somebody may write it who wants to be taken for "a"
	texts := []string{
		"", "a", "b", zeros, zeros[:70], zeros + "0", strings.ToUpper(zeros), zeros[:70] + "A", zeros[:70] + "a", zeros[:70] + "g", "sha512:" + zeros[7:],
		hashed, "sha256:" + strings.TrimPrefix(hashed, "text:"),
	}
	for _, one := range texts {
		for _, other := range texts {
			assert.True(t, (record.HashOf(one) == record.HashOf([]byte(other))) == (one == other),
				"%q and %q are taken for each other, or not for themselves", one, other)
		}
	}
	assert.True(t, record.HashOf("") == (record.Hash{}) && record.HashOf(zeros) != (record.Hash{}), "nothing but the empty text is no hash")
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
				got, want := all.Job(n), record.Job(id, n)
				require.True(t, got == want, "job %d of %d is %.40q, want %.40q", n, count, got, want)
			}
		}
	}
	var none record.Targets
	assert.Equal(t, deploylog.Target("job//1"), none.Job(1), "the job of no group")
}

// What shares its memory is what it was, and nothing that is added to one comes into another.
func TestJobsThatShareAreWhatTheyWere(t *testing.T) {
	jobs := func() record.Jobs {
		return record.Jobs{From: 3, Jobs: []record.JobSpec{
			{Package: "a", Version: "1"},
			{Package: "b", Version: "1", Uses: []record.Use{{Package: "a", Job: 1, Run: true}, {Package: "c", Artifact: "sha256:1"}}, Waits: record.Numbers{1}},
			{Package: "a", Pass: 2, Of: 2, Uses: []record.Use{}, Waits: record.Numbers{1, 2}},
			{Package: "d", Uses: []record.Use{{Package: "b", Job: 2}}},
		}}
	}
	got := jobs()
	got.Share()
	require.Equal(t, jobs(), got)
	got.Jobs[1].Uses = append(got.Jobs[1].Uses, record.Use{Package: "added"})
	got.Jobs[1].Waits = append(got.Jobs[1].Waits, 7)
	assert.Equal(t, jobs().Jobs[2:], got.Jobs[2:], "by what was added to another they")
	var none record.Jobs
	none.Share()
}

func TestDataIsWrittenAndReadAsByReflection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func() string {
			if rapid.Bool().Draw(t, "plain") {
				return rapid.SampledFrom([]string{"", "sha256:00ff", "oci 1.1", `a"b`, `a\b`, "<a&b>", "é", "\x00", "\xff", "a\u2028b"}).Draw(t, "text")
			}
			return rapid.String().Draw(t, "any")
		}
		number := func() int64 { return rapid.Int64().Draw(t, "number") }
		same(t, record.Started{Worker: text(), Inputs: text()})
		same(t, record.Eligible{Jobs: record.Numbers{1, 2, 5}[:rapid.IntRange(0, 3).Draw(t, "jobs")]})
		f := record.Finished{
			Artifact: text(), Inputs: text(), Reused: deploylog.Target(text()), Size: number(), Files: int(number()), Worker: text(), Engine: text(), Image: text(),
			Commit: text(), Provenance: text(), Pushed: text(), Log: text(), LogBytes: number(), Took: time.Duration(number()),
		}
		if rapid.Bool().Draw(t, "metadata") {
			f.Metadata = map[string]string{text(): text(), "b": "c"}
		}
		same(t, f)
		if got, want := record.OutcomeOf(f.AppendText(nil)), outcome(record.Decode[record.Finished](deploylog.Event{Data: f.AppendText(nil)})); got != want {
			t.Fatalf("%s comes to %+v, want %+v", f.AppendText(nil), got, want)
		}
	})
}

func same[T any](t *rapid.T, data T) {
	want := must.Get(json.Marshal(data))(t)
	got, err := record.Encode(data)
	require.NoError(t, err, "%+v is written as %s, %v, and by reflection as %s", data, got, err, want)
	require.Equal(t, string(want), string(got), "%+v is written as %s, %v, and by reflection as %s", data, got, err, want)
	var read T
	require.NoError(t, json.Unmarshal(want, &read))
	require.Equal(t, read, record.Decode[T](deploylog.Event{Data: got}), "%s is read", got)
}

// Whatever text there is, it is read as by reflection.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"worker":"w","inputs":"sha256:0"}`))
	f.Add([]byte(`{"jobs":"1-3,5"}`))
	f.Add([]byte(`{"artifact":"a","size":12,"files":0,"took":-1,"Inputs":"x","metadata":{"a":"b"}}`))
	f.Add([]byte(`{"jobs":"1,"}`))
	f.Add([]byte(`{"jobs":"1-2","jobs":""}`))
	f.Add([]byte(`{"size":1e3,"took":007,"artifact":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		alike[record.Started](t, text)
		alike[record.Eligible](t, text)
		alike[record.Finished](t, text)
		e := deploylog.Event{Data: text}
		room := record.Numbers{1, 2, 3}
		got, want := record.JobsOf(text, room), record.Decode[record.Eligible](e).Jobs
		require.True(t, slices.Equal(got, want), "%s names %v, want %v", text, got, want)
		if got, want := record.OutcomeOf(text), outcome(record.Decode[record.Finished](e)); got != want {
			t.Fatalf("%s comes to %+v, want %+v", text, got, want)
		}
	})
}

func outcome(d record.Finished) record.Outcome {
	return record.Outcome{Artifact: d.Artifact, Inputs: record.HashOf(d.Inputs), Reused: d.Reused != "", Took: d.Took}
}

func alike[T any](t *testing.T, text []byte) {
	var want T
	if json.Unmarshal(text, &want) != nil {
		var none T
		want = none
	}
	require.Equal(t, want, record.Decode[T](deploylog.Event{Data: text}), "%s is read", text)
}
