package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/approval"
)

// Pattern is how a server mounts a Handler.
const Pattern = "POST /v1/pipelines/{pipeline}/stages/{stage}/approvals"

// Handler takes signed approvals of the pipelines of a log.
type Handler struct {
	Pipelines Pipelines
	Now       func() time.Time

	// Base is the address at which clients reach the server, where that is not the one that
	// their requests name, as behind a proxy; nil is that one.
	Base *url.URL

	// Log is told why requests are refused; nil is nobody.
	Log *slog.Logger

	// Failed is told why the log takes nothing any more before it is opened again, perhaps more
	// than once; nil is nobody.
	Failed func(error)
}

// New returns a handler.
func New(p Pipelines, now func() time.Time) *Handler {
	return &Handler{Pipelines: p, Now: now}
}

// Answer says what an approval came to.
type Answer struct {
	Pipeline string             `json:"pipeline"`
	Stage    string             `json:"stage"`
	Revision string             `json:"revision"`
	By       string             `json:"by"`
	Approved bool               `json:"approved"`          // false while others have to approve, too
	Missing  *approval.Standing `json:"missing,omitempty"` // what then is needed
	Event    int64              `json:"event"`

	Recorded deploylog.Event `json:"-"`
}

// mismatch is a request whose path and body do not say the same.
var errMismatch = errors.New("the body approves another pipeline or stage than the path names; a stage is named in full")

// Approve records the approval that a request to the path of a stage is. An error that is
// Refused is about the signature; others are about what it approves.
func (h *Handler) Approve(ctx context.Context, name, stage string, r Request) (Answer, error) {
	keys, err := h.Pipelines.Keys(ctx, name)
	switch {
	case errors.Is(err, pipelines.ErrNoPipeline):
		keys = &approval.Keys{} // as of one that has none
	case err != nil:
		return Answer{}, err
	}
	by, signature, err := Verify(r, keys, stage, h.Now())
	if err != nil {
		return Answer{}, err
	}
	if err := h.Pipelines.admit(ctx, name, stage, signature, h.Now()); err != nil {
		return Answer{}, unbelieved(err)
	}
	body, err := DecodeBody(r.Body)
	if err != nil {
		return Answer{}, invalid{err}
	}
	if body.Pipeline != name || body.Stage != stage {
		return Answer{}, invalid{errMismatch}
	}
	v, err := h.Pipelines.approve(ctx, body, by, ulid.Make().String(), &signature, h.Now())
	if err != nil {
		return Answer{}, unbelieved(err)
	}
	return Answer{
		Pipeline: name, Stage: stage, Revision: body.Revision, By: by,
		Approved: v.missing == nil, Missing: v.missing, Recorded: v.recorded, Event: v.recorded.Seq,
	}, nil
}

// unbelieved is an error that is about the signature as Refused, and another one as it is.
func unbelieved(err error) error {
	var refused *refusal.Error
	if errors.As(err, &refused) && (refused.Code == approval.NoKey || refused.Code == approval.UsedNonce) {
		return &Refused{err}
	}
	return err
}

// invalid is a request that was signed as it should be, and makes no sense.
type invalid struct{ error }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		problem(w, http.StatusMethodNotAllowed, "Approvals are posted", "")
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // of a connection, which a recorder has not
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			problem(w, http.StatusRequestEntityTooLarge, "The body is too large", fmt.Sprintf("An approval has at most %d bytes.", MaxBody))
			return
		}
		problem(w, http.StatusBadRequest, "The body cannot be read", "")
		return
	}
	answer, err := h.Approve(r.Context(), r.PathValue("pipeline"), r.PathValue("stage"), Request{Method: r.Method, URL: h.target(r), Header: r.Header, Body: body})
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(answer) // who left will see it in the log
}

// target is the URI that the client addressed.
func (h *Handler) target(r *http.Request) *url.URL {
	u := *r.URL
	u.Scheme, u.Host = "http", r.Host
	if r.TLS != nil {
		u.Scheme = "https"
	}
	if h.Base != nil {
		u.Scheme, u.Host = h.Base.Scheme, h.Base.Host
	}
	return &u
}

// refuse answers a request that is not carried out. Whoever has not proved to be somebody is
// told nothing but that.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if h.Log != nil {
		h.Log.WarnContext(r.Context(), "an approval is refused", "pipeline", named(r, "pipeline"), "stage", named(r, "stage"), "cause", err)
	}
	var unbelieved *Refused
	var refused *refusal.Error
	var senseless invalid
	switch {
	case errors.As(err, &unbelieved):
		problem(w, http.StatusUnauthorized, "The approval is not signed as it should be", "Nothing was recorded. The log of the server says why.")
	case errors.As(err, &senseless):
		problem(w, http.StatusUnprocessableEntity, "The approval makes no sense", senseless.Error())
	case errors.As(err, &refused):
		problem(w, http.StatusConflict, "The approval is refused", refused.Error())
	case errors.Is(err, deploylog.ErrPoisoned):
		if h.Failed != nil {
			h.Failed(err)
		}
		problem(w, http.StatusServiceUnavailable, "The approval could not be recorded", "Nothing can be recorded before the server is started again, as where its disk is full. Sign it again then.")
	default:
		problem(w, http.StatusInternalServerError, "The approval could not be recorded", "The log of the server says why.")
	}
}

// named is what a path names, as long as names are: whoever sends it need not have proved to be
// somebody, and is not to fill the log of the server.
func named(r *http.Request, what string) string {
	return fmt.Sprintf("%.200s", r.PathValue(what))
}

func problem(w http.ResponseWriter, status int, title, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail,omitempty"`
	}{"about:blank", title, status, detail})
}
