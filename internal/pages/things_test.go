package pages_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/control/managed"
	ran "github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/runner/report"
)

func TestThingsAreShown(t *testing.T) {
	s := newSite(t)
	b := s.signedIn(identity.Viewer)
	b.shows(http.StatusOK, "Nothing that runs made is there.", "/things")
	b.shows(http.StatusOK, "There are no orphans.", "/things?orphans=1")
	for i := range 250 {
		one := &managed.Thing{Thing: &ran.Thing{Name: fmt.Sprintf("page%03d", i), Run: "RUN"}, Standing: managed.Declared}
		one.Manifest, one.Type = []string{"web.yaml"}, "deployster/file"
		if i == 0 {
			one.Name, one.Standing, one.Manifest = markup, managed.Undeclared, []string{"old.yaml"}
			one.Identity = &report.Identity{Key: "k", Parts: map[string]string{"path": markup}}
		}
		s.things = append(s.things, one)
	}
	body := b.shows(http.StatusOK, "Nothing declares 1 of them", "/things")
	assert.Equal(t, 200, strings.Count(body, "<tr data-key="))
	assert.NotContains(t, body, markup)
	assert.Contains(t, body, `<a href="/runs/RUN">`)
	body = b.shows(http.StatusOK, "page249", "/things?from=200")
	assert.Equal(t, 50, strings.Count(body, "<tr data-key="))
	body = b.shows(http.StatusOK, "destroy --orphans", "/things?orphans=1")
	assert.Equal(t, 1, strings.Count(body, "<tr data-key="))
	body = b.shows(http.StatusOK, `value="old.yaml"`, "/things?manifest=old.yaml")
	assert.Equal(t, 1, strings.Count(body, "<tr data-key="))
	b.shows(http.StatusOK, "Nothing that runs made is there.", "/things?manifest=none.yaml")
	b.shows(http.StatusOK, "", "/things?from=9999")
	b.shows(http.StatusBadRequest, "", "/things?from=-1")
}
