package docker

import (
	"testing"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
)

func TestDockerPassesTheSuite(t *testing.T) {
	probe := loadProbe(t, open(t))
	e := openWith(t, Options{Gate: gateBinary(t)})
	enginetest.Run(t, func(*testing.T) engine.Engine { return e }, enginetest.Images{
		Probe:   probe.ref,
		Tar:     probe.tar,
		Network: "none",
		Leave: func(t *testing.T, labels map[string]string) (string, func()) {
			return probe.leave(t, e, labels)
		},
	})
}
