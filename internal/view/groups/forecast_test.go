package groups_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/internal/view/groups"
)

// A forecast that a group will not end says what shows why.
func TestAForecastWithoutWorkersSaysWhatHelps(t *testing.T) {
	for want, f := range map[string]build.Forecast{
		"base-7 will not end: no worker serves 1 job of it: gcc; what would: deployster build explain base-7\n": {Jobs: 2, Slots: 1, Unserved: []int{1}},
		"base-7 will not end: there is no worker; what is wanted: deployster build explain base-7\n":            {Jobs: 2},
	} {
		var out strings.Builder
		s := build.Summary{ID: "base-7", State: transition.Dispatching}
		require.NoError(t, groups.Forecast(&out, s, f, func(int) string { return "gcc" }, groups.Options{}))
		assert.True(t, strings.HasPrefix(out.String(), want))
	}
}
