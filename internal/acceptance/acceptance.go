// Package acceptance keeps requests for what their senders may not do alone, until a caller who may accepts exactly that.
package acceptance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/refusal"
)

// The limits of requests.
const (
	Lasts = 7 * 24 * time.Hour
	Most  = 20 // of one pipeline or environment at once
)

// The reasons for which a command about requests is refused.
const (
	AlreadyAsked refusal.Code = "already-asked"
	TooManyAsked refusal.Code = "too-many-asked"
	NothingAsked refusal.Code = "nothing-asked" // for a revision, or it has expired
	AskedByYou   refusal.Code = "asked-by-you"
	CarriesOther refusal.Code = "carries-other"
)

// Asks is what the event of a request records beside what it carries.
type Asks struct {
	Content string    `json:"content"` // hash of all that it brings
	Excess  []string  `json:"excess"`  // what of that its sender may not bring, a line each
	Expires time.Time `json:"expires"`
}

// Cause returns what a request brings in one line, "" for none.
func (a *Asks) Cause() string {
	if a == nil {
		return ""
	}
	return strings.Join(a.Excess, "; ")
}

// Accepted is what the event of an accepted request records.
type Accepted struct {
	By      string `json:"by"`
	Asked   string `json:"asked"` // deployment of the event that asked
	Content string `json:"content"`
}

// Request is what was asked for and not decided. Payload is the data of its event.
type Request[Payload any] struct {
	Revision string
	By       string
	Seq      int64
	ID       string // deployment of its event
	Defined  int64  // event of the definition then
	Asks
	Payload Payload
}

// Requests are those of one pipeline or environment, oldest first. Some may have expired.
type Requests[Payload any] []Request[Payload]

// Of names a pipeline or an environment in refusals.
type Of struct {
	Kind, Command, Name string // such as pipeline, pipeline, gateway
	Unknown, Repeated   error  // that refusals wrap
}

// Content returns the hash of all that a request brings.
func Content(all any) string {
	text, err := json.Marshal(all)
	if err != nil {
		return "" // no field of it can fail
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Lines returns what a request brings beyond what is allowed, a line each, and what was not compared as the last line.
// Only the first 20 are kept: found begins with the most serious.
func Lines(found []allow.Excess, notCompared string) (lines []string) {
	const most = 20
	for _, e := range found[:min(most, len(found))] {
		lines = append(lines, cut(e.String()))
	}
	if more := len(found) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("%d more", more))
	}
	return append(lines, "not compared: "+notCompared)
}

// cut returns the beginning of a line that is too long for an event, and how much is left out.
func cut(line string) string {
	line = strings.ToValidUTF8(line, "\uFFFD")
	if len(line) <= deploylog.MaxCause {
		return line
	}
	end := deploylog.MaxCause
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d more bytes)", line[:end], len(line)-end)
}

// Open returns the requests that have not expired.
func (r Requests[P]) Open(now time.Time) (open Requests[P]) {
	for _, a := range r {
		if now.Before(a.Expires) {
			open = append(open, a)
		}
	}
	return open
}

// Check refuses one more request for a revision.
func (r Requests[P]) Check(of Of, revision string, now time.Time) error {
	open := r.Open(now)
	if i := open.index(revision); i >= 0 {
		return refusal.New(AlreadyAsked, "revision %s of %s %s is %w asked for, by %s (event %d): deployster %s decline %s %s takes it back", revision, of.Kind, of.Name, of.Repeated, open[i].By, open[i].Seq, of.Command, of.Name, revision)
	}
	if n := len(open); n >= Most {
		return refusal.New(TooManyAsked, "%s of %s %s wait to be accepted, and no more may: have some accepted or declined first", phrase.Count(n, "request"), of.Kind, of.Name)
	}
	return nil
}

func (r Requests[P]) index(revision string) int {
	return slices.IndexFunc(r, func(a Request[P]) bool { return a.Revision == revision })
}

// Find returns the request for a revision.
func (r Requests[P]) Find(of Of, revision string, now time.Time) (Request[P], error) {
	open := r.Open(now)
	if i := open.index(revision); i >= 0 {
		return open[i], nil
	}
	for _, a := range slices.Backward(r) {
		if a.Revision == revision {
			return a, refusal.New(NothingAsked, "revision %s of %s %s was asked for by %s (event %d), and that has expired (%s): it has to be asked for again", revision, of.Kind, of.Name, a.By, a.Seq, a.Expires.Format(time.RFC3339))
		}
	}
	var names []string
	for _, a := range open {
		names = append(names, a.Revision)
	}
	has := "none waits"
	if len(names) > 0 {
		has = "those that wait are " + strings.Join(names, ", ")
	}
	return Request[P]{}, refusal.New(NothingAsked, "%w request for revision %s of %s %s; %s", of.Unknown, revision, of.Kind, of.Name, has)
}

// Accept refuses to accept anything else than the content of a request, by somebody else, for the present definition.
func (a Request[P]) Accept(of Of, content, by string, defined int64) error {
	switch {
	case content == "":
		return refusal.New(CarriesOther, "which content of revision %s do you accept? %s explain %s shows it: deployster %s accept %s %s --content %s", a.Revision, of.Command, of.Name, of.Command, of.Name, a.Revision, a.Content)
	case content != a.Content:
		return refusal.New(CarriesOther, "revision %s is asked for with the content %s, and not with %s: look at it again (deployster %s explain %s)", a.Revision, a.Content, content, of.Command, of.Name)
	case by == a.By:
		return refusal.New(AskedByYou, "revision %s was asked for by %s, who does not accept it: somebody else does, who is operator of everything", a.Revision, a.By)
	case a.Defined != defined:
		return refusal.New(CarriesOther, "%s %s was defined anew since revision %s was asked for (event %d): decline it, and have it asked for again", of.Kind, of.Name, a.Revision, defined)
	}
	return nil
}

// Altered refuses a request whose event does not bring what its content says.
func (a Request[P]) Altered(brings string) error {
	if brings == a.Content {
		return nil
	}
	return refusal.New(CarriesOther, "what was asked for as revision %s (event %d) is not what it says: decline it, and have it asked for again", a.Revision, a.Seq)
}

// Accepted returns what the event of the accepted request records.
func (a Request[P]) Accepted(by string) *Accepted {
	return &Accepted{By: by, Asked: a.ID, Content: a.Content}
}

// With returns the requests with one more, and without those that had expired by then.
func (r Requests[P]) With(a Request[P], at time.Time) Requests[P] {
	return append(slices.Clone(r.Open(at)), a)
}

// Without returns the requests without some.
func (r Requests[P]) Without(is func(Request[P]) bool) Requests[P] {
	if !slices.ContainsFunc(r, is) {
		return r
	}
	return slices.DeleteFunc(slices.Clone(r), is)
}
