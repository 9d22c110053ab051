package serve

import (
	"log/slog"
	"os"

	"github.com/coreos/go-systemd/v22/daemon"
)

// activated reports whether systemd passes sockets to this process.
func activated() bool { return os.Getenv("LISTEN_FDS") != "" && os.Getenv("LISTEN_FDS") != "0" }

// tellSystemd tells systemd, where that started the process, how it is.
func tellSystemd(logger *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logger.Warn("systemd cannot be told how the server is", "error", err)
	}
}
