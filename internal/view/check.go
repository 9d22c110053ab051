package view

import "github.com/deployster-go/deployster/internal/authoring"

// Check writes what a check of a resource type found, as one line of type "check".
func (j *JSON) Check(r authoring.Result) {
	j.line(struct {
		Type string `json:"type"`
		authoring.Result
	}{"check", r})
}
