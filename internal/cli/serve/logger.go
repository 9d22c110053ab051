package serve

import (
	"log/slog"

	"github.com/deployster-go/deployster/internal/cli/app"
)

// newLogger writes the log of the server: lines for people among the errors, or JSON as the
// output.
func newLogger(a *app.App) *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if a.Verbose {
		o.Level = slog.LevelDebug
	}
	if a.JSON() {
		return slog.New(slog.NewJSONHandler(a.Out, o))
	}
	return slog.New(slog.NewTextHandler(a.Err, o))
}
