package session

import (
	"errors"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/cli/exit"
)

// ManifestBelow is work.ManifestBelow, with an error in plain words.
func ManifestBelow(workspace, path string) (string, error) {
	below, err := work.ManifestBelow(workspace, path)
	if err != nil {
		return "", errors.New(exit.FileWords(err))
	}
	return below, nil
}
