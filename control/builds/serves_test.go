package builds_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/inventory"
)

func TestWhichHostsServeAPlace(t *testing.T) {
	beta := inventory.Host{Name: "beta", Slots: 1, Platforms: []string{"linux/arm64", "linux/amd64/v2"}, Attributes: map[string][]string{"stack": {"beta"}}}
	for query, want := range map[string]bool{"": true, "attribute:stack == beta": true, "attribute:stack == prod": false, "attribute:((": false} {
		assert.Equal(t, want, builds.Serves(beta, record.Place{Platform: "linux/amd64", Workers: query}), "%q is served", query)
	}
	for platform, want := range map[string]bool{"linux/arm64": true, "linux/amd64": true, "linux/amd64/v2": true, "linux/amd64/v3": false, "linux/amd": false, "linux/arm": false, "": false} {
		assert.Equal(t, want, builds.Serves(beta, record.Place{Platform: platform}), "%q is served", platform)
	}
}
