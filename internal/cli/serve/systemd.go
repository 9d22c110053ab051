package serve

import (
	"log/slog"
	"os"
	"strconv"

	"github.com/coreos/go-systemd/v22/daemon"
)

// activated reports whether systemd passes sockets to this process, and not to one that has started
// it and left it the variables.
func activated() bool {
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	return err == nil && n > 0 && os.Getenv("LISTEN_PID") == strconv.Itoa(os.Getpid())
}

// tellSystemd tells systemd, where that started the process, how it is.
func tellSystemd(logger *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logger.Warn("systemd cannot be told how the server is", "error", err)
	}
}
