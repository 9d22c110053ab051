package promotions_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// keeper notes which environments are controlled for pipelines.
type keeper struct {
	mu    sync.Mutex
	times map[string]int // how often each is
	most  int
}

func (k *keeper) control(environment string) (leave func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.times[environment]++
	k.most = max(k.most, k.times[environment])
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.times[environment]--
	}
}

// controlled are the environments that are controlled at the moment.
func (k *keeper) controlled() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for environment, times := range k.times {
		if times != 0 {
			all = append(all, environment)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// Environments are kept while a pipeline uses them, once each, whichever it is, and not a moment
// longer than the last one does.
func TestAnEnvironmentIsKeptUntilItsLastPipelineLeavesIt(t *testing.T) {
	inWorld(t, single(), func(w *world) {
		uses := func(pipeline, id string, environments ...string) {
			t.Helper()
			d := &definition.Definition{Name: pipeline, Promotion: single(), Stages: stagesOf(environments...)}
			w.commands(pipeline, promotion.Define{Definition: d, ID: id})
		}
		k := &keeper{times: map[string]int{}}
		ctx, end := context.WithCancel(context.Background())
		o := w.options(w.open())
		o.Selected, o.Identity, o.Control = w.Selected, w.Identity, k.control
		ended := make(chan error, 1)
		go func() { ended <- promotions.NewController(o).Run(ctx) }()
		wants := func(when, want string) {
			t.Helper()
			<-time.After(time.Minute)
			synctest.Wait()
			assert.Equal(t, want, k.controlled(), "%s", when)
		}
		wants("for one pipeline", "dev prod staging")
		uses("crm", "first", "dev", "staging")
		wants("for two", "dev prod staging")
		w.commands("shop", promotion.Delete{ID: "delete"})
		wants("when one is deleted", "dev staging")
		uses("crm", "second", "staging", "prod")
		wants("when the other has other stages", "prod staging")
		w.commands("crm", promotion.Delete{ID: "delete"})
		wants("when both are deleted", "")
		uses("crm", "third", "dev", "prod")
		wants("for one that is defined again", "dev prod")
		end()
		<-ended
		wants("when nobody promotes any more", "")
		assert.Equal(t, 1, k.most, "one was kept")
	})
}
