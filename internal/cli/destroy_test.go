package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// wholeSite is a site on which three is there, as an apply makes it.
func wholeSite(t *testing.T) *site {
	s := newSite(t, three)
	for name, value := range map[string]string{"a": "one", "b": "one", "c": "three"} {
		require.NoError(t, os.WriteFile(s.thing(name), []byte(value), 0o600))
	}
	return s
}

// wantNothing checks that all things of the site are gone, and that its log is
// truthful.
func (s *site) wantNothing() {
	s.Helper()
	left, err := filepath.Glob(s.thing("?")) // but not what an action left that was killed
	assert.NoError(s, err)
	assert.Empty(s, left)
	s.wantTruth()
	for _, name := range []string{"a", "b", "c"} {
		e, ok, err := s.log.Latest(s.Context(), deploylog.Target("resource/"+name), deploylog.Succeeded)
		assert.True(s, err == nil && ok && e.Revision == "", "by the log, %s is deployed: %+v, %v", name, e, err)
	}
}

func TestKilledAtAnyPointTheNextDestroyEndsWithAllGone(t *testing.T) {
	t.Parallel()
	killedAtAnyPoint(t, func(t *testing.T) *site {
		s := wholeSite(t)
		s.docker = ringtest.All() // without it no removal outlives its run, and is ended with that
		return s
	}, "destroy", (*site).wantNothing)
}

func TestInterruptOnceLetsTheRemovalFinish(t *testing.T) {
	t.Parallel()
	s := wholeSite(t)
	s.hold("b")
	s.hold("c")
	r := s.start("destroy", "m.yaml", "--confirm", "NO")
	s.untilBusy("b")
	s.untilBusy("c")
	s.signal(r, os.Interrupt)
	r.out.until(t, "running actions finish first")
	s.release("b")
	s.release("c")
	s.wantEnd(r, 130)
	assert.NoError(t, errOf(os.Stat(s.thing("a"))), "a went, though it was interrupted")
	names := s.names()
	require.Contains(t, names, "action-finished-successfully action/b/remove")
	assert.Equal(t, "run-failed run/m.yaml", names[len(names)-1], "the log tells")
	s.deployster("destroy", "m.yaml", "--confirm", "NO")
	s.wantNothing()
}

func TestAnApplyAndADestroyAtOnceTakeTurns(t *testing.T) {
	t.Parallel()
	s := wholeSite(t)
	s.hold("b")
	destroy := s.start("destroy", "m.yaml", "--confirm", "NO")
	s.untilBusy("b")
	apply := s.start("apply", "m.yaml", "--confirm", "NO")
	apply.out.until(t, "waits for another run")
	s.release("b")
	s.wantEnd(destroy, 0)
	s.exit(apply) // it may have found what was still there, or not
	s.wantTruth()
}
