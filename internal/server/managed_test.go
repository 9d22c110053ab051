package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/managed"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/server"
)

// What runs made is listed in parts, and looked for once for all parts as long as nothing happens.
func TestThingsAreListed(t *testing.T) {
	log := logOf(t, 1)
	var asked []managed.Question
	var failing error
	_, url := newServer(t, log, func(o *server.Options) {
		o.Managed = func(_ context.Context, q managed.Question) (all []*managed.Thing, err error) {
			asked = append(asked, q)
			for i := range 2500 {
				one := &managed.Thing{Thing: &runs.Thing{Name: fmt.Sprintf("page%04d", i), Run: "RUN"}, Standing: managed.Declared}
				if one.Manifest = []string{"web.yaml"}; i%1000 == 0 {
					one.Standing = managed.Undeclared
				}
				if !q.Orphans || one.Standing.Orphan() {
					all = append(all, one)
				}
			}
			return all, failing
		}
	})
	remote := must.Get(client.New(client.Options{Server: url, Token: "viewer"}))(t)
	rows := must.Get(remote.Managed(t.Context(), "web.yaml", false))(t)
	require.Len(t, rows, 2500)
	for i, row := range rows {
		require.Equal(t, fmt.Sprintf("page%04d", i), row.Resource)
	}
	assert.Equal(t, []managed.Question{{Manifest: "web.yaml"}}, asked, "what is there was looked for more often than once")
	rows = must.Get(remote.Managed(t.Context(), "", true))(t)
	require.Len(t, rows, 3)
	assert.True(t, rows[1].Orphan)
	for path, want := range map[string]int{
		"?limit=0": http.StatusUnprocessableEntity, "?limit=2": http.StatusOK, "?cursor=x": http.StatusUnprocessableEntity, "?orphans=perhaps": http.StatusUnprocessableEntity,
	} {
		expect(t, want, "", "GET", url+"/v1/things"+path, "viewer", "")
	}
	expect(t, http.StatusForbidden, "", "GET", url+"/v1/things", "nobody", "")
	failing = errors.New("the disk is full")
	expect(t, http.StatusInternalServerError, "", "GET", url+"/v1/things?manifest=other", "viewer", "")
	_, without := newServer(t, log)
	expect(t, http.StatusConflict, "does not know which things", "GET", without+"/v1/things", "viewer", "")
}
