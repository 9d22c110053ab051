package record_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/record"
)

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
