package pages

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/query"
)

// known is what a page is made of: all that follows from the log, now or right after an
// event.
type known struct {
	at, head     int64
	newest       int64 // event of the log
	pipelines    *query.Pipelines
	environments *query.Environments
	builds       *query.Builds
}

// present reports whether the present is asked for.
func (k *known) present() bool { return k.at == 0 }

// errAsked is wrapped where a page is asked for what there cannot be.
var errAsked = errors.New("this cannot be shown")

// known is what the request asks for, with what gives it back. The present is folded
// once, by whoever asks first; the past is folded for each request, of few at once.
func (p *Pages) known(r *http.Request) (k *known, release func(), err error) {
	release = func() {}
	at, err := number(r, "at")
	if err != nil {
		return nil, nil, err
	}
	ctx := r.Context()
	k = &known{at: at, pipelines: p.pipelines, environments: p.environments, builds: p.builds}
	for e, err := range p.Log.Read(ctx, deploylog.Filter{Last: 1}) {
		if err != nil {
			return nil, nil, err
		}
		k.newest = e.Seq
	}
	if at > k.newest {
		return nil, nil, fmt.Errorf("%w: there is no event %d yet, the log ends with event %d", errAsked, at, k.newest)
	}
	if at > 0 {
		select {
		case p.past <- struct{}{}:
			release = func() { <-p.past }
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		k.pipelines, k.environments, k.builds = query.NewPipelines(p.Log, p.Now), query.NewEnvironments(p.Log, p.Now), query.NewBuilds(p.Log, p.Now)
	}
	err = errors.Join(k.pipelines.Follow(ctx, at), k.environments.Follow(ctx, at), k.builds.Follow(ctx, at))
	if err != nil {
		release()
		return nil, nil, err
	}
	if k.head = at; at == 0 {
		k.head = min(k.pipelines.Head(), k.environments.Head(), k.builds.Head())
	}
	return k, release, nil
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
