package pages

import (
	"errors"
	"net/http"
	"strings"

	"github.com/deployster-go/deployster/internal/query"
)

// traceBody is the way of a revision through pipelines.
type traceBody struct {
	Revision, Pipeline string
	Traces             []query.Trace
	Why                string // there is none; "" is that there is, or that none was asked for
}

// Approved returns by whom a revision was approved at a stage, in one line.
func (traceBody) Approved(s query.TracedStage) string {
	var names []string
	for _, a := range s.Approvals {
		name := a.By
		if a.Rejected {
			name += " (rejected)"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// trace is the way of a revision, from its commit to each stage.
func (p *Pages) trace(r *http.Request, k *known) (page, error) {
	values := r.URL.Query()
	body := traceBody{Revision: values.Get("revision"), Pipeline: values.Get("pipeline")}
	shown := page{Title: "Trace of a revision", Tab: "overview"}
	if body.Revision != "" {
		release, err := p.enterPast(r.Context()) // it reads the whole log, as pages of the past do
		if err != nil {
			return page{}, err
		}
		defer release()
		body.Traces, err = query.TraceRevision(r.Context(), p.Log, body.Revision, body.Pipeline, k.at, p.Now())
		if err != nil && !errors.Is(err, query.ErrNotFound) {
			return page{}, err
		}
		if err != nil {
			body.Why = err.Error()
		}
		shown.Title = "Trace of revision " + body.Revision
	}
	shown.Body = body
	return shown, nil
}
