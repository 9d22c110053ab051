package promotions_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
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
				p := w.promotes("1")
				defer p.end()
				<-time.After(2 * time.Minute)
				w.set(func() {
					if all := f.Requests(); ok != (len(open(f)) == 1) || ok != (len(all) > 0) || asked[variable] != ok {
						t.Errorf("with %s it was asked %q, and of variables %v", variable, all, asked)
					}
				})
				if r := w.explain("staging"); !ok && (r.Code != promotion.AwaitsRetry || !strings.Contains(r.Message, "the token is not read: token_env \""+variable+"\" must be DEPLOYSTER_GIT_TOKEN")) {
					t.Errorf("it says %+v", r)
				}
			})
		})
	}
}

// Nor does another file of the workspace, though it be there and hold what a token or a key may be.
func TestNoFileButThoseOfSecretsGoesToAServer(t *testing.T) {
	const stolen = ".deployster/secrets/one"
	proposing(t, func(w *world, f *forgetest.Forge) {
		place(t, w.workspace, stolen, forgetest.Token)
		w.define(single(), proposes(f), func(d *definition.Definition) {
			for i := range d.Stages[1:] {
				d.Stages[i+1].PullRequest.TokenFile = stolen
			}
		})
		p := w.promotes("1")
		defer p.end()
		<-time.After(2 * time.Minute)
		assert.Empty(t, f.Requests(), "it was asked")
		w.says("staging", promotion.AwaitsRetry, "the token is not read: token_file \""+stolen+"\" must be in a directory named secrets")
	})
	r := newReceiver(t)
	place(t, r.workspace, stolen, hookKey)
	r.asking(t, func(w *world) {
		w.define(single(), r.asks, func(d *definition.Definition) {
			for i := range d.Stages[1:] {
				d.Stages[i+1].Webhook.KeyFile = stolen
			}
		})
		p := w.promotes("1")
		defer p.end()
		<-time.After(2 * time.Minute)
		assert.Empty(t, r.take(), "it was asked for")
		w.says("staging", promotion.AwaitsRetry, "the key is not read: key_file \""+stolen+"\" must be in a directory named secrets")
	})
}

// place writes a file below a workspace.
func place(t testing.TB, workspace, path, text string) {
	t.Helper()
	path = filepath.Join(workspace, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// Two logs that name one repository and branch do not fight for it: the second one says so.
func TestTwoLogsDoNotFightForABranch(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		p := w.promotes("1")
		defer p.end()
		<-time.After(2 * time.Minute)
		other := newWorld(w.TB, reconciletest.InMemory(w.TB))
		other.workspace = w.workspace
		other.define(single(), proposes(f))
		other.deploys("dev", "2")
		second := other.start()
		defer second.end()
		<-time.After(10 * time.Minute)
		if r := other.explain("staging"); r.Code != promotion.AwaitsRetry || !strings.Contains(r.Message, "is used by another: pipeline shop of log "+w.open().ID()+" proposes from it, and not pipeline shop of log "+other.open().ID()) {
			t.Errorf("it says %+v", r)
		}
		if all := f.Pulls(); len(all) != 1 || all[0].Title != "Promote staging to revision 1" || all[0].State != "open" || w.explain("staging").Code != promotion.AwaitsMerge {
			t.Errorf("there are %+v", all)
		}
	})
}
