package pages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/query"
)

// known is what a page is made of: all that follows from the log, now or right after an
// event.
type known struct {
	at, head     int64
	past         bool  // it is as of that event; else the present, of which a part may be shown
	newest       int64 // event of the log
	pipelines    *query.Pipelines
	environments *query.Environments
	builds       *query.Builds
	promotions   *promotions.Promotions
}

// present reports whether the present is asked for.
func (k *known) present() bool { return !k.past }

// errAsked is wrapped where a page is asked for what there cannot be.
var errAsked = errors.New("this cannot be shown")

// known is what the request asks for, with what gives it back. The present is folded
// once, by whoever asks first; the past is folded for each request, of few at once, and not
// for pages that show the events themselves.
func (p *Pages) known(r *http.Request, events bool) (k *known, release func(), err error) {
	release = func() {}
	at, err := number(r, "at")
	if err != nil {
		return nil, nil, err
	}
	ctx := r.Context()
	k = &known{at: at, past: at > 0 && !events, pipelines: p.pipelines, environments: p.environments, builds: p.builds, promotions: p.promotions}
	for e, err := range p.Log.Read(ctx, deploylog.Filter{Last: 1}) {
		if err != nil {
			return nil, nil, err
		}
		k.newest = e.Seq
	}
	if at > k.newest {
		return nil, nil, fmt.Errorf("%w: there is no event %d yet, the log ends with event %d", errAsked, at, k.newest)
	}
	until := int64(0)
	if k.past {
		until = at
		if release, err = p.enterPast(ctx); err != nil {
			return nil, nil, err
		}
		k.pipelines, k.environments, k.builds = query.NewPipelines(p.Log, p.Now), query.NewEnvironments(p.Log, p.Now), query.NewBuilds(p.Log, p.Now)
		k.promotions = promotions.NewReader(p.Log, p.Now)
	}
	err = errors.Join(k.pipelines.Follow(ctx, until), k.environments.Follow(ctx, until), k.builds.Follow(ctx, until), k.promotions.Follow(ctx, until))
	if err != nil {
		release()
		return nil, nil, err
	}
	if k.head = at; !k.past {
		k.head = min(k.pipelines.Head(), k.environments.Head(), k.builds.Head(), k.promotions.Head())
	}
	return k, release, nil
}

// enterPast waits until a request may fold the past, which few do at once, and returns what
// lets the next one do so.
func (p *Pages) enterPast(ctx context.Context) (release func(), err error) {
	select {
	case p.past <- struct{}{}:
		return sync.OnceFunc(func() { <-p.past }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// number is one that a page is asked with; 0 is none.
func number(r *http.Request, name string) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: %s must be a number, from 0", errAsked, name)
	}
	return n, nil
}

// asked is what a page is asked beside the moment, and beside where a list begins, which is
// another list at another moment.
func asked(r *http.Request) (all []detail) {
	values := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name != "at" && name != "from" && name != "done" {
			all = append(all, detail{name, values.Get(name)})
		}
	}
	return all
}
