package pages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/reason"
)

// waitingApproval is a revision that waits for approval, or that somebody asks to release or make.
type waitingApproval struct {
	Kind                      string // whose Pipeline names one: identity.Pipelines or identity.Environments
	Pipeline, Stage, Revision string
	Says                      string
	Carries                   string // hash of what would be approved
	Diff                      string // command that shows all that it changes; "" is none
	By                        []string
	Needed                    int
	Until                     time.Time // "" is any time
	Seq                       int64
	Observed                  bool // of a pipeline that promotes by observed state
	May                       bool // who asks may approve, or accept

	AskedBy    string // who asks to release it; "" is that it waits for approval
	MayDecline bool
}

// approvalsBody is all that waits for approval.
type approvalsBody struct {
	Waiting []waitingApproval
	Done    string // what was recorded just now
}

// remembered is what waited as of an event, for all who ask until there is another one.
type remembered struct {
	mu      sync.Mutex
	head    int64
	waiting []waitingApproval
}

// approvals is what waits for approval.
func (p *Pages) approvals(r *http.Request, k *known) (page, error) {
	all, err := p.approvalsFor(r, k)
	if err != nil {
		return page{}, err
	}
	body, who := approvalsBody{Waiting: slices.Clone(all)}, identity.Of(r.Context())
	for i := range body.Waiting {
		w := &body.Waiting[i]
		if w.AskedBy == "" {
			w.May = k.present() && who.May(identity.Approver, identity.Pipelines, w.Pipeline)
			continue
		}
		w.May = k.present() && who.May(identity.Operator, "", "") && who.Name != w.AskedBy
		w.MayDecline = k.present() && who.May(identity.Operator, w.Kind, w.Pipeline)
	}
	body.Done = map[string]string{"approve": "Approved.", "reject": "Rejected.", "accept": "Accepted and released.", "accepted": "Accepted.", "decline": "Declined."}[r.URL.Query().Get("done")]
	return page{Title: "Approvals", Tab: "approvals", Follow: following("pipeline", "stage", "environment", "task"), Body: body}, nil
}

// approvalsOf is what waits for approval, which is found out once for each event.
func (p *Pages) approvalsOf(k *known) ([]waitingApproval, error) {
	if !k.present() {
		return findApprovals(k)
	}
	p.remembered.mu.Lock()
	defer p.remembered.mu.Unlock()
	if p.remembered.head == k.head && k.head > 0 {
		return p.remembered.waiting, nil
	}
	all, err := findApprovals(k)
	if err == nil {
		p.remembered.head, p.remembered.waiting = k.head, all
	}
	return all, err
}

func findApprovals(k *known) (all []waitingApproval, err error) {
	pipelines, err := k.pipelines.Status(false, false)
	if err != nil {
		return nil, err
	}
	for _, s := range pipelines {
		for _, a := range s.Waiting {
			r := a.First
			if r.Code == reason.AwaitsAcceptance {
				all = append(all, waitingApproval{Kind: identity.Pipelines, Pipeline: s.Name, Revision: r.Revision, Says: r.Message(), Carries: r.Name, Until: r.Until, Seq: r.Seq, AskedBy: r.Actor})
			}
			if r.Code != reason.AwaitsApproval {
				continue
			}
			w := waitingApproval{Kind: identity.Pipelines, Pipeline: s.Name, Stage: r.Name, Revision: r.Revision, Says: r.Message(), Until: r.Until, Seq: r.Seq}
			if r.Approval != nil {
				w.Carries, w.By, w.Needed = r.Approval.Carries, r.Approval.By, r.Approval.Needed
			}
			all = append(all, w)
		}
	}
	for _, name := range k.environments.Present() {
		if a := k.environments.WithAsked(report.Report{Environment: name}).Asked; a != nil {
			all = append(all, waitingApproval{
				Kind: identity.Environments, Pipeline: name, Revision: strconv.Itoa(a.Revision), Says: fmt.Sprintf("asked for by %s, and not made: %s; expires at %s", a.By, a.Cause(), phrase.Moment(a.Expires)), Diff: a.Diff(name),
				Carries: a.Content, Until: a.Expires, Seq: a.Seq, AskedBy: a.By,
			})
		}
	}
	for _, name := range k.promotions.Present() {
		r, _, _, err := k.promoted(name)
		if err != nil {
			return nil, err
		}
		for _, s := range r.Stages {
			if s.Reason.Code == promotion.AwaitsApproval {
				w := waitingApproval{Kind: identity.Pipelines, Pipeline: name, Stage: s.Stage, Revision: s.Reason.Revision, Says: s.Reason.Message, Seq: s.Reason.Event, Observed: true}
				if of := s.Reason.Approval; of != nil {
					w.Carries, w.By, w.Needed = of.Carries, of.By, of.Needed
				}
				all = append(all, w)
			}
		}
	}
	return all, nil
}

// decide approves or rejects a revision, or accepts or declines that it is released, as a form asks for it, by the API:
// it says who may.
func (p *Pages) decide(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		p.fail(w, r, http.StatusBadRequest, "The form cannot be read.")
		return
	}
	if !p.Sessions.sent(r, identity.Of(r.Context())) {
		p.fail(w, r, http.StatusForbidden, "This form was not sent by a page that you were shown. Open the page again.")
		return
	}
	verb, sent := r.PostFormValue("verdict"), map[string]any{}
	fields, known := map[string][]string{
		"approve": {"stage", "revision", "reason", "carries"}, "reject": {"stage", "revision", "reason"},
		"accept": {"revision", "content"}, "decline": {"revision", "reason"},
	}[verb]
	if !known {
		p.fail(w, r, http.StatusBadRequest, "The form neither approves nor rejects anything, nor accepts or declines it.")
		return
	}
	for _, name := range fields {
		sent[name] = r.PostFormValue(name)
	}
	kind, done := "pipelines", verb
	switch {
	case r.PostFormValue("observed") == "true":
		kind = "promotions"
	case r.PostFormValue("kind") == identity.Environments && (verb == "accept" || verb == "decline"):
		number, err := strconv.Atoi(r.PostFormValue("revision"))
		if err != nil {
			p.fail(w, r, http.StatusBadRequest, "The form names no revision.")
			return
		}
		if kind, sent["revision"] = identity.Environments, number; verb == "accept" {
			done = "accepted"
		}
	}
	code, detail := p.record(w, r, "/v1/"+kind+"/"+url.PathEscape(r.PostFormValue("pipeline"))+"/commands/"+verb, sent)
	if code != http.StatusOK {
		p.fail(w, r, code, detail)
		return
	}
	http.Redirect(w, r, "/approvals?done="+done, http.StatusSeeOther)
}

// record has the API record a command as who sent the form, and returns what it answers: the
// detail where it is refused.
func (p *Pages) record(w http.ResponseWriter, r *http.Request, path string, command any) (code int, detail string) {
	body, err := json.Marshal(command)
	if err != nil {
		return http.StatusInternalServerError, err.Error()
	}
	to, err := url.Parse(path)
	if err != nil {
		return http.StatusBadRequest, fmt.Sprintf("%q is no path: %v", path, err)
	}
	if token, ok := p.Sessions.token(r); ok {
		r = authorized(r, token)
	} else {
		r = r.Clone(r.Context())
	}
	r.URL, r.RequestURI, r.Method = to, to.RequestURI(), http.MethodPost
	r.Header.Set("Content-Type", "application/json")
	r.Header.Del("Cookie")
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer := &captured{ResponseWriter: w, header: http.Header{}, code: http.StatusOK}
	p.API.ServeHTTP(answer, r)
	if answer.code != http.StatusOK {
		var problem struct{ Detail string }
		if json.Unmarshal(answer.body.Bytes(), &problem) != nil || problem.Detail == "" {
			problem.Detail = http.StatusText(answer.code)
		}
		return answer.code, problem.Detail
	}
	return answer.code, ""
}

// captured is an answer of the API, which is not sent but shown.
type captured struct {
	http.ResponseWriter // which the deadlines of the connection are of
	header              http.Header
	code                int
	body                bytes.Buffer
}

func (c *captured) Header() http.Header         { return c.header }
func (c *captured) Write(p []byte) (int, error) { return c.body.Write(p) }
func (c *captured) WriteHeader(code int)        { c.code = code }

// Unwrap is for http.ResponseController.
func (c *captured) Unwrap() http.ResponseWriter { return c.ResponseWriter }
