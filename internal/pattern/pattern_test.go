package pattern_test

import (
	"testing"

	"github.com/deployster-go/deployster/internal/pattern"
)

func TestLazyCompilesOnce(t *testing.T) {
	digits := pattern.Lazy(`^[0-9]+$`)
	if !digits().MatchString("12") || digits().MatchString("12a") {
		t.Error("the pattern does not match what it is to match")
	}
	if first, second := digits(), digits(); first != second {
		t.Error("the pattern is compiled each time")
	}
}

func TestLazyRefusesAWrongPatternWhenItIsNeeded(t *testing.T) {
	wrong := pattern.Lazy(`(`)
	defer func() {
		if recover() == nil {
			t.Error("a wrong pattern was compiled")
		}
	}()
	wrong()
}
