package pattern_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/pattern"
)

func TestLazyCompilesOnce(t *testing.T) {
	digits := pattern.Lazy(`^[0-9]+$`)
	assert.True(t, digits().MatchString("12"))
	assert.False(t, digits().MatchString("12a"))
	assert.Same(t, digits(), digits(), "the pattern is compiled each time")
}

func TestLazyRefusesAWrongPatternWhenItIsNeeded(t *testing.T) {
	wrong := pattern.Lazy(`(`)
	assert.Panics(t, func() { wrong() })
}
