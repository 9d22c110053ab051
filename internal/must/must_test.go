package must_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/must"
)

// failing is a test that only notes that it ended.
type failing struct{ ended bool }

func (*failing) Errorf(string, ...any) {}
func (f *failing) FailNow()            { f.ended = true }

func TestOnlyAnErrorEndsTheTest(t *testing.T) {
	assert.Equal(t, 1, must.Get(1, nil)(t))
	f, lost := new(failing), errors.New("lost")
	must.Get(1, lost)(f)
	assert.True(t, f.ended)
	assert.Equal(t, lost, must.Fail(1, lost))
}
