package record_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
)

// What is written is what encoding/json writes, and what is read what it reads.
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
	want, err := json.Marshal(data)
	require.NoError(t, err)
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
		if got, want := record.JobsOf(text, room), record.Decode[record.Eligible](e).Jobs; !slices.Equal(got, want) {
			t.Fatalf("%s names %v, want %v", text, got, want)
		}
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
