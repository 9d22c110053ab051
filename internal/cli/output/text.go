package output

import (
	"strings"
	"time"

	"github.com/deployster-go/deployster/internal/view"
)

// Dash is a text, or a dash in its place.
func Dash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// InLine makes of what somebody wrote one line that is safe to print.
func InLine(text string) string { return strings.Join(strings.Fields(view.Clean(text)), " ") }

// Moment is a time as people read it, in their time zone.
func Moment(t time.Time) string { return t.Local().Format(time.DateTime) }
