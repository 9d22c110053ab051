package suggest_test

import (
	"testing"

	"github.com/deployster-go/deployster/internal/suggest"
)

func TestClosest(t *testing.T) {
	known := []string{"content", "path", "read_only", "resource_names", "type"}
	for word, want := range map[string]string{
		"contnet": "content", "Path": "path", "readOnly": "read_only", "resourceNames": "resource_names", "tpye": "type",
		"something": "", "": "", "x": "", "pa": "", "types": "type",
	} {
		if got := suggest.Closest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	for word, want := range map[string]string{"x": "", "xy": "", "B": "b", "dx": "db", "bd": "db"} {
		if got := suggest.Closest(word, []string{"a", "b", "db"}); got != want {
			t.Errorf("%q among short names: %q, want %q", word, got, want)
		}
	}
}
