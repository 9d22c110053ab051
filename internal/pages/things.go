package pages

import (
	"net/http"

	"github.com/deployster-go/deployster/control/managed"
)

// thingsBody is what runs made and is still there.
type thingsBody struct {
	Manifest  string // that it is of; "" is any
	Orphans   bool   // only what nothing declares
	Things    []managed.Row
	Undeclare int // how many orphans there are among all that are listed
	Pages     pager
}

// mostThings are on one page.
const mostThings = 200

// things is what runs made and is still there, now.
func (p *Pages) things(r *http.Request, _ *known) (page, error) {
	from, err := number(r, "from")
	if err != nil {
		return page{}, err
	}
	values := r.URL.Query()
	body := thingsBody{Manifest: values.Get("manifest"), Orphans: values.Get("orphans") != ""}
	var all []*managed.Thing
	if p.Managed != nil {
		if all, err = p.Managed(r.Context(), managed.Question{Manifest: body.Manifest, Orphans: body.Orphans}); err != nil {
			return page{}, err
		}
	}
	for _, t := range all {
		if t.Standing.Orphan() {
			body.Undeclare++
		}
	}
	first := min(int(from), len(all))
	body.Things = managed.Rows(all[first:min(first+mostThings, len(all))])
	body.Pages = paged(r, first, mostThings, len(all))
	return page{Title: "Things", Tab: "things", Present: true, Follow: following("resource", "run"), Body: body}, nil
}
