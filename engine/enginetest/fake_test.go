package enginetest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
)

func TestFakePassesTheSuite(t *testing.T) {
	const ref = "probe:fake"
	fake := &enginetest.Fake{
		Images: map[string]enginetest.FakeImage{ref: enginetest.FakeProbe()},
		Loads:  func(string) (enginetest.FakeImage, error) { return enginetest.FakeProbe(), nil },
	}
	tar, err := enginetest.ImageTar(ref, enginetest.ProbeImage(t, ""))
	require.NoError(t, err)
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
