// Package pins writes into a plan what was found of a resource, with the hashes to which an Apply of the
// plan is bound.
package pins

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// Fingerprint identifies a JSON-like value: equal ones have the same, others another. With nil a plan has
// no hashes.
type Fingerprint func(any) (string, error)

func (f Fingerprint) of(what string, v any) (string, error) {
	if f == nil {
		return "", nil
	}
	hash, err := f(v)
	if err != nil {
		return "", fmt.Errorf("taking the hash of its %s: %w", what, err)
	}
	return hash, nil
}

// Configuration writes down what is known of a resource before it is observed. A configuration that is not
// known yet is nil.
func (f Fingerprint) Configuration(p *report.ResourcePlan, image engine.Image, config map[string]any) (err error) {
	p.ImageID, p.ImageDigest = image.ID, image.Digest
	if config != nil {
		p.Config = config
		p.ConfigHash, err = f.of("configuration", config)
	}
	return err
}

// Seen is what is known of a resource once it is observed.
type Seen struct {
	Answer   protocol.StateOutput
	Asked    map[string]any // the configuration with which its type was asked
	Secret   invoke.Paths   // where secrets are in that
	Kept     map[string]any // what was kept of it before
	ReadOnly bool
}

// Observation writes down what was found of a resource.
func (f Fingerprint) Observation(p *report.ResourcePlan, s Seen) (err error) {
	p.Status, p.State = report.Status(s.Answer.Status), s.Answer.State
	if p.Status != report.Valid {
		p.State = s.Answer.StaleState
	}
	if p.StateHash, err = f.of("state", p.State); err != nil || p.Status == report.Valid {
		return err
	}
	p.Exists, p.ReadOnly = s.Answer.StaleState != nil, s.ReadOnly
	p.Diff = diff.Of(s.Answer.StaleState, s.Asked, s.Secret)
	p.Actions = slices.Clone(s.Answer.Actions)
	if len(s.Kept) > 0 {
		if p.KeptHash, err = f.of("memory", s.Kept); err != nil {
			return err
		}
	}
	p.ActionsHash, err = f.of("actions", diff.Decisive(s.Answer.Actions))
	return err
}

// Removal writes down what a type answers that was asked to remove.
func (f Fingerprint) Removal(p *report.ResourcePlan, answer protocol.StateOutput) (err error) {
	p.State = answer.StaleState
	p.Actions = slices.Clone(answer.Actions)
	if p.StateHash, err = f.of("state", p.State); err != nil {
		return err
	}
	p.ActionsHash, err = f.of("actions", diff.Decisive(answer.Actions))
	return err
}
