package output_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/cli/output"
)

func TestDigestsOfALogAreSafeToPrint(t *testing.T) {
	got := output.Digests("  ", map[string]string{"m.yaml": "0a", "b\x1b[2J": "1\x1b[31m\n# 2"})
	assert.Equal(t, "  b sha256:1 # 2\n  m.yaml sha256:0a\n", got)
}
