package reusable_test

import (
	"fmt"
	"testing"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/reusable"
)

// Hashes that have in common what the table knows them by are told apart, also after it has grown.
func TestArtifactsAreFoundByAllOfTheirHash(t *testing.T) {
	hash := func(n int) record.Hash { return record.HashOf(fmt.Sprintf("sha256:%016x%048x", n%3, n)) }
	const count = 1000
	var all reusable.Table
	if a := all.Of(hash(1)); a != nil {
		t.Fatalf("an empty table has %+v", a)
	}
	for _, round := range []int64{1, 2} {
		for n := range count {
			all.Set(reusable.Artifact{Inputs: hash(n), Seq: round*count + int64(n)})
		}
		for n := range count {
			if a := all.Of(hash(n)); a == nil || a.Seq != round*count+int64(n) {
				t.Errorf("in round %d, what was built of %d is %+v", round, n, a)
			}
		}
	}
	if a := all.Of(hash(count)); a != nil || all.Len() != count {
		t.Errorf("there are %d, and of what was never built %+v", all.Len(), a)
	}
	for n, a := range all.All() {
		if a.Inputs != hash(n) {
			t.Errorf("artifact %d is of %v", n, a.Inputs)
		}
	}
}
