package query

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/phrase"
)

// Actors finds out which command of whom caused the events of a log.
type Actors struct {
	log deploylog.Log
	by  map[string]string // by deployment
}

// NewActors returns the actors of a log.
func NewActors(log deploylog.Log) *Actors { return &Actors{log: log, by: map[string]string{}} }

// Of is "apply by ada" for the events of a run, and "by ada" where the event
// itself says what was done.
func (a *Actors) Of(ctx context.Context, e deploylog.Event) (string, error) {
	if by := actorOf(e); by != "" {
		if e.Name == e.Target.Started() {
			a.by[e.Deployment] = by
		}
		return by, nil
	}
	if by, known := a.by[e.Deployment]; known {
		return by, nil
	}
	for first, err := range a.log.Read(ctx, deploylog.Filter{Deployment: e.Deployment, Until: e.Seq}) {
		if err != nil {
			return "", err
		}
		a.by[e.Deployment] = actorOf(first)
		break
	}
	return a.by[e.Deployment], nil
}

// actorOf is what an event itself says of it.
func actorOf(e deploylog.Event) string {
	var data struct {
		By      string                `json:"by"`
		Kind    record.DeploymentKind `json:"kind"`
		Details struct {
			User    string `json:"user"`
			Command string `json:"command"`
		} `json:"details"`
	}
	if len(e.Data) == 0 || json.Unmarshal(e.Data, &data) != nil {
		return ""
	}
	verb, by := data.Details.Command, data.Details.User
	if by == "" {
		verb, by = string(data.Kind), data.By
	}
	if by != "" {
		verb = strings.TrimPrefix(verb+" by "+by, " ")
	}
	return phrase.Plain(verb)
}
