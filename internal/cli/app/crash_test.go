package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/crash"
)

// What different variables hold may print alike.
func TestAllThatVariablesHoldIsHiddenInReports(t *testing.T) {
	t.Chdir(t.TempDir())
	c := Crashes{Now: time.Now, About: func() string { return "test" }}
	for _, value := range []any{
		[]any{"pass", "word"}, []any{"pass word"},
		map[string]any{"k": "abcd", "q": "efgh"}, map[string]any{"k": "abcd q:efgh"},
	} {
		c.Hide(value)
	}
	c.Add(&crash.Error{Message: "boom pass and word, abcd and efgh", Place: "here"})
	reports, err := filepath.Glob(".deployster/crash-*.txt")
	if err != nil || len(reports) != 1 {
		t.Fatalf("the reports are %q, %v", reports, err)
	}
	text, err := os.ReadFile(reports[0])
	require.NoError(t, err)
	if want := "boom (hidden) and (hidden), (hidden) and (hidden)\n"; !strings.Contains(string(text), want) {
		t.Errorf("it does not say %q:\n%s", want, text)
	}
}
