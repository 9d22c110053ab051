package promotions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/pullrequest/forgetest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// The log may have a definition that no file could say: whoever wrote it does not get another
// secret of the process sent to a server of their choice.
func TestNoVariableButThoseOfTokensGoesToAServer(t *testing.T) {
	for variable, ok := range map[string]bool{"DATABASE_PASSWORD": false, "DEPLOYSTER_TOKEN": false, "DEPLOYSTER_GIT_TOKEN": true, "DEPLOYSTER_GIT_TOKEN_ACME": true} {
		t.Run(variable, func(t *testing.T) {
			proposing(t, func(w *world, f *forgetest.Forge) {
				asked := map[string]bool{}
				w.getenv = func(name string) string {
					w.set(func() { asked[name] = true })
					return forgetest.Token
				}
				w.define(single(), proposes(f), func(d *definition.Definition) {
					for i := range d.Stages[1:] {
						d.Stages[i+1].PullRequest.TokenFile, d.Stages[i+1].PullRequest.TokenEnv = "", variable
					}
				})
				w.deploys("dev", "1")
				p := w.start()
				defer p.end()
				<-time.After(2 * time.Minute)
				if all := f.Requests(); ok != (len(open(f)) == 1) || ok != (len(all) > 0) || asked[variable] != ok {
					t.Errorf("with %s it was asked %q, and of variables %v", variable, all, asked)
				}
				if r := w.explain("staging"); !ok && (r.Code != promotion.AwaitsRetry || !strings.Contains(r.Message, "the token is not read: token_env \""+variable+"\" must be DEPLOYSTER_GIT_TOKEN")) {
					t.Errorf("it says %+v", r)
				}
			})
		})
	}
}
