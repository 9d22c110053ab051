package provider

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// listing is a request of which page after page is read.
type listing struct {
	path  string
	query url.Values
	size  int       // of a page, as it is asked for; a provider may give less
	most  int       // pull requests that are read, of whichever branch
	since time.Time // pages end with those that were changed before this; zero is never
}

// mostPages is how many pages of a list are read at most, however few they hold.
const mostPages = 100

// page is what an answer lists.
type page struct {
	pulls   []PullRequest // of the branch
	count   int           // of whichever branch
	more    bool          // the answer says that there is another page
	changed string        // when the last of them was changed, as RFC 3339 has it; "" is not known
}

// following is what the header of an answer says of other pages.
type following struct {
	next  bool
	total int // 0 is not known
}

func followingOf(h http.Header) (f following) {
	f.next = h.Get("X-Next-Page") != ""
	for _, line := range h.Values("Link") {
		for link := range strings.SplitSeq(line, ",") {
			_, parameters, _ := strings.Cut(link, ";")
			f.next = f.next || strings.Contains(strings.ReplaceAll(parameters, `"`, "")+";", "rel=next;")
		}
	}
	f.total, _ = strconv.Atoi(h.Get("X-Total-Count"))
	return f
}

// ends reports whether a page is the last one that is read, with so many pull requests before
// its end. A provider may give smaller pages than it is asked for: that there is more is said by
// what it says about that, and where it says nothing, by a full page.
func (l *listing) ends(p page, f following, seen int) bool {
	if p.count == 0 || seen >= l.most {
		return true
	}
	if at, err := time.Parse(time.RFC3339, p.changed); err == nil && at.Before(l.since) {
		return true
	}
	return !p.more && !f.next && seen >= f.total && p.count < l.size
}

// read reads the pages of a list, until one is enough.
func (c *Client) read(ctx context.Context, l listing, branch, base string, enough func(PullRequest) bool) (all []PullRequest, err error) {
	seen := 0
	for number := 1; number <= mostPages; number++ {
		query := url.Values{}
		for key, values := range l.query {
			query[key] = values
		}
		if number > 1 {
			query.Set("page", fmt.Sprint(number))
		}
		answer, err := c.caller.call(ctx, request{method: http.MethodGet, path: l.path, query: query})
		if err != nil {
			return nil, fmt.Errorf("looking for the pull request: %w", err)
		}
		p, err := c.dialect.list(answer.body, branch, base)
		if err != nil {
			return nil, fmt.Errorf("looking for the pull request: its provider answers what cannot be read: %w", err)
		}
		seen += p.count
		done := l.ends(p, answer.following, seen)
		for _, one := range p.pulls {
			one.URL = linkOf(one.URL)
			all = append(all, one)
			done = done || enough(one)
		}
		if done {
			break
		}
	}
	return all, nil
}
