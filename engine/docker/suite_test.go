package docker

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/moby/moby/client"

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

		HeldRuns: true,
		Lacked:   func(t *testing.T, labels map[string]string) bool { return lacked(t, e, labels) },
		Leave: func(t *testing.T, labels map[string]string) (string, func()) {
			return probe.leave(t, e, labels)
		},
	})
}

// lacked reports whether Docker has noticed that memory is lacking in a container.
func lacked(t *testing.T, e *Engine, labels map[string]string) bool {
	t.Helper()
	found, err := e.Containers(t.Context(), labels)
	if err != nil || len(found) != 1 {
		t.Fatalf("containers %v (%v), want one", found, err)
	}
	filters := client.Filters{}
	filters.Add("container", found[0].ID)
	filters.Add("event", "oom")
	events := e.client.Events(t.Context(), client.EventsListOptions{
		Since: found[0].Created.Format(time.RFC3339Nano), Until: time.Now().Format(time.RFC3339Nano), Filters: filters,
	})
	select {
	case <-events.Messages:
		return true
	case err := <-events.Err:
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		return false
	}
}
