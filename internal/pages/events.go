package pages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/runner/encoding"
)

// logBody is a part of the log, the newest first.
type logBody struct {
	Filter  logFilter
	Events  []loggedEvent
	Newest  int64
	Newer   string // path; "" is none
	Older   string
	Moment  time.Time // of the newest that is shown
	Reached int64     // the event as of which it is shown
}

// logFilter selects events.
type logFilter struct {
	Target, Name, Deployment string
}

// loggedEvent is an event with what caused it.
type loggedEvent struct {
	deploylog.Event
	By      string
	Details string
	Output  string // several lines
	Data    string
	Page    string // of what it happened to; "" is none
}

// mostEvents are on one page of the log.
const mostEvents = 100

// log is the log up to an event, or what comes behind one.
func (p *Pages) log(r *http.Request, k *known) (page, error) {
	values := r.URL.Query()
	body := logBody{Newest: k.newest, Reached: cmp.Or(k.at, k.newest), Filter: logFilter{values.Get("target"), values.Get("event"), values.Get("deployment")}}
	part, err := p.partOf(r, k, body.Filter)
	if err != nil {
		return page{}, err
	}
	if len(part.events) > 0 {
		last, first := part.events[0], part.events[len(part.events)-1]
		if body.Moment = last.CreatedAt; values.Has("after") {
			body.Reached = last.Seq
		}
		if part.older && first.Seq > 1 {
			body.Older = body.Filter.path("at", first.Seq-1)
		}
		if part.newer {
			body.Newer = body.Filter.path("after", last.Seq)
		}
	}
	actors := query.NewActors(p.Log)
	for _, e := range part.events {
		l := loggedEvent{Event: e, Page: pageOf(e)}
		if l.By, err = actors.Of(r.Context(), e); err != nil {
			return page{}, err
		}
		l.describe()
		body.Events = append(body.Events, l)
	}
	shown := page{Title: "Log", Tab: "log", Body: body}
	if len(values) == 0 {
		shown.Follow = "*"
	}
	return shown, nil
}

// path is that of the log with the same filter, from another event on.
func (f logFilter) path(name string, seq int64) string {
	v := url.Values{}
	for key, text := range map[string]string{"target": f.Target, "event": f.Name, "deployment": f.Deployment} {
		if text != "" {
			v.Set(key, text)
		}
	}
	v.Set(name, fmt.Sprint(seq))
	return "/log?" + v.Encode()
}

// part is a part of the log, the newest event first, and whether there are others.
type part struct {
	events       []deploylog.Event
	older, newer bool
}

// partOf is what a request asks for: the newest events up to one, or the oldest behind one.
func (p *Pages) partOf(r *http.Request, k *known, filter logFilter) (part, error) {
	f := deploylog.Filter{Target: deploylog.Target(filter.Target), Name: filter.Name, Deployment: filter.Deployment}
	behind, err := number(r, "after")
	if err != nil {
		return part{}, err
	}
	forward := r.URL.Query().Has("after")
	if forward {
		f.After = behind
	} else {
		f.Last, f.Until = mostEvents+1, k.at
	}
	of := part{older: forward && behind > 0, newer: !forward && k.at > 0 && k.at < k.newest}
	for e, err := range p.Log.Read(r.Context(), f) {
		if err != nil {
			return part{}, err
		}
		if of.events = append(of.events, e); len(of.events) > mostEvents {
			break
		}
	}
	switch {
	case len(of.events) <= mostEvents:
	case forward:
		of.newer, of.events = true, of.events[:mostEvents]
	default:
		of.older, of.events = true, of.events[1:]
	}
	slices.Reverse(of.events)
	return of, nil
}

// mostData is how much of the data of an event is shown, in bytes.
const mostData = 16 << 10

// describe picks from the data of an event what people ask for first.
func (l *loggedEvent) describe() {
	if len(l.Event.Data) == 0 {
		return
	}
	l.Data = string(l.Event.Data)
	if len(l.Data) > mostData {
		l.Data = strings.ToValidUTF8(l.Data[:mostData], "") + " …"
	}
	var data encoding.Fields
	if json.Unmarshal(l.Event.Data, &data) != nil {
		return
	}
	var parts []string
	if data.Status != "" {
		parts = append(parts, string(data.Status))
	}
	if len(data.Actions) > 0 {
		parts = append(parts, "actions "+strings.Join(data.Actions, ", "))
	}
	if l.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", l.Attempt))
	}
	if data.Exit != nil {
		parts = append(parts, fmt.Sprintf("exit %d", *data.Exit))
	}
	if why := cmp.Or(data.Error, query.Cause(l.Event)); why != "" {
		first, rest, _ := strings.Cut(why, "\n")
		parts = append(parts, first)
		l.Output = rest
	}
	if len(data.Output) > 0 {
		l.Output = strings.Join(data.Output, "\n")
	}
	l.Details = strings.Join(parts, " · ")
}

// pageOf is the page of what an event happened to.
func pageOf(e deploylog.Event) string {
	_, rest, _ := strings.Cut(string(e.Target), "/")
	name, _, _ := strings.Cut(rest, "/")
	switch e.Target.Kind() {
	case "run", "resource", "action":
		return pathOf("runs", e.Deployment)
	case "pipeline", "stage", "host-group", "host":
		return pathOf("pipelines", name)
	case "group", "job":
		return pathOf("builds", name)
	case "environment":
		return pathOf("environments", rest)
	case "task":
		if name, _, _, ok := record.TaskOf(e.Target); ok {
			return pathOf("environments", name)
		}
	}
	return ""
}
