package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/authoring"
)

// Checks that are skipped although a configuration was given (the type does not
// serve, for example) are no reason to ask for one.
func TestTheVerdictAsksForAConfigurationOnlyWhereThereIsNone(t *testing.T) {
	counts := map[authoring.Outcome]int{authoring.Passed: 18, authoring.Skipped: 4}
	if got, want := Verdict("motd", counts, true, false), "✔ motd keeps to the protocol: 18 passed, 4 skipped\n"; got != want {
		t.Errorf("with a configuration: %q, want %q", got, want)
	}
	assert.Contains(t, Verdict("motd", counts, false, false), "(--config asks for more)", "without a configuration")
}
