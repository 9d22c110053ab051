package promotions_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/pullrequest/forgetest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// A server that wants to be left alone when something is proposed for the first time fails
// nothing, whichever of its parts says so.
func TestAFirstTryWaitsUntilTheServerMayBeAsked(t *testing.T) {
	for _, part := range []string{"/api/", "/info/refs", "/git-upload-pack", "/git-receive-pack"} {
		t.Run(part, func(t *testing.T) {
			proposing(t, func(w *world, f *forgetest.Forge) {
				f.Before(func(to http.ResponseWriter, r *http.Request) bool {
					if !strings.Contains(r.URL.Path, part) {
						return false
					}
					to.Header().Set("Retry-After", "1800")
					to.WriteHeader(http.StatusTooManyRequests)
					return true
				})
				p := w.promotes("1")
				<-time.After(25 * time.Minute)
				asked := 0
				for _, r := range f.Requests() {
					if strings.Contains(r, part) {
						asked++
					}
				}
				if asked != 1 || w.count(promotion.StageStarted, "staging", "1") != 1 || w.count(promotion.StageFailed, "staging", "") != 0 {
					t.Errorf("it was asked %d times", asked)
				}
				if all := w.notices("try 1 of promoting revision 1 to stage/shop/staging waits: "); len(all) != 1 || !strings.Contains(all[0], "asked too often, and wants to be left alone until") {
					t.Errorf("it says %q", all)
				}
				f.Before(nil)
				p.die() // the next one does not know that
				p = w.start()
				defer p.end()
				<-time.After(6 * time.Minute)
				require.Len(t, open(f), 1)
				assert.Equal(t, 1, w.count(promotion.StageStarted, "staging", "1"))
			})
		})
	}
}

// Where it may be asked again the try goes on by itself.
func TestATryGoesOnWhenTheServerMayBeAsked(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		f.Before(func(to http.ResponseWriter, r *http.Request) bool {
			f.Before(nil)
			to.Header().Set("Retry-After", "600")
			to.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		w.deploys("dev", "1")
		assert.NoError(t, w.untilIdle(w.open()))
		if len(open(f)) != 1 || w.count(promotion.StageStarted, "staging", "1") != 1 || w.count(promotion.StageFailed, "", "") != 0 {
			t.Errorf("there are %+v", f.Pulls())
		}
	})
}

// What is proposed to a server that does not answer keeps nobody else from being promoted.
func TestAServerThatDoesNotAnswerKeepsNobodyElse(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		release := make(chan struct{})
		w.getenv = func(string) string { // whoever asks has a place at the server already
			<-release
			return forgetest.Token
		}
		w.stages = w.stages[:2]
		w.define(single())
		for i := range 10 {
			d := &definition.Definition{Name: fmt.Sprint("slow", i), Promotion: single(), Stages: []definition.Stage{{Name: "dev", Environment: "dev"}, {Name: "prod", Environment: "prod"}}}
			proposes(f)(d)
			d.Stages[1].PullRequest.TokenFile, d.Stages[1].PullRequest.TokenEnv, d.Stages[1].PullRequest.Branch = "", "DEPLOYSTER_GIT_TOKEN", d.Name
			if _, err := w.promotions.Change(w.Context(), d.Name, true, func(s *promotion.State) ([]deploylog.Event, error) {
				return s.Propose(promotion.Define{Definition: d, ID: d.Name}, promotion.Observed{}, time.Now())
			}); err != nil {
				t.Fatal(err)
			}
		}
		p := w.promotes("1")
		<-time.After(time.Minute)
		assert.Equal(t, "1", w.at("staging"))
		close(release)
		<-time.After(time.Minute)
		assert.Len(t, open(f), 10)
		p.end()
	})
}
