package reusable_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/reusable"
)

// Hashes that have in common what the table knows them by are told apart, also after it has grown.
func TestArtifactsAreFoundByAllOfTheirHash(t *testing.T) {
	hash := func(n int) record.Hash { return record.HashOf(fmt.Sprintf("sha256:%016x%048x", n%3, n)) }
	const count = 1000
	var all reusable.Table
	require.Nil(t, all.Of(hash(1)), "an empty table")
	for _, round := range []int64{1, 2} {
		for n := range count {
			all.Set(reusable.Artifact{Inputs: hash(n), Seq: round*count + int64(n)})
		}
		for n := range count {
			a := all.Of(hash(n))
			assert.True(t, a != nil && a.Seq == round*count+int64(n), "in round %d, what was built of %d is %+v", round, n, a)
		}
	}
	require.Nil(t, all.Of(hash(count)))
	assert.Equal(t, count, all.Len())
	for n, a := range all.All() {
		assert.Equal(t, hash(n), a.Inputs, "artifact %d is of %v", n, a.Inputs)
	}
}
