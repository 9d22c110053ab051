package enginetest_test

import (
	"testing"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
)

func TestFakePassesTheSuite(t *testing.T) {
	const ref = "probe:fake"
	fake := &enginetest.Fake{
		Images: map[string]enginetest.FakeImage{ref: enginetest.FakeProbe()},
		Loads:  func(string) (enginetest.FakeImage, error) { return enginetest.FakeProbe(), nil },
	}
	tar := must.Get(enginetest.ImageTar(ref, enginetest.ProbeImage(t, "")))(t)
	enginetest.Run(t, func(*testing.T) engine.Engine { return fake }, enginetest.Images{
		Probe:    ref,
		Tar:      tar,
		InMemory: true,
		Left:     "reading\n",
		Leave: func(_ *testing.T, labels map[string]string) (string, func()) {
			id, end := fake.Leave(labels)
			fake.Print(id, "reading\n", "")
			return id, func() { end(7) }
		},
	})
}
