package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/runner/report"
)

// Told is an output of a manifest as the log has it: the value of a secret one is in a protected
// document.
type Told struct {
	report.Output
	secret *protected.Ref
}

// Outputs are what manifests told when they were last applied, by the targets of their runs.
type Outputs struct {
	told     map[deploylog.Target]map[string]Told
	commands map[string]string // of runs
}

// ReadOutputs reads those of a target from the log; of "run/" those of all.
func ReadOutputs(ctx context.Context, log deploylog.Log, target deploylog.Target) (*Outputs, error) {
	o := &Outputs{map[deploylog.Target]map[string]Told{}, map[string]string{}}
	for e, err := range log.Read(ctx, deploylog.Filter{Target: target}) {
		if err != nil {
			return nil, fmt.Errorf("reading the outputs of %s: %w", target, err)
		}
		switch e.Name {
		case e.Target.Started():
			o.commands[e.Deployment] = DataOf(e).Details["command"]
		case e.Target.Succeeded():
			o.fold(e)
		}
	}
	return o, nil
}

// fold has an apply replace the outputs that it knows; after a destroy there are none.
func (o *Outputs) fold(e deploylog.Event) {
	d, command := DataOf(e), o.commands[e.Deployment]
	delete(o.commands, e.Deployment)
	if command == "adopt" {
		return // that evaluates none
	}
	before, now := o.told[e.Target], make(map[string]Told, len(d.Outputs.Outputs))
	for name, one := range d.Outputs.Outputs {
		now[name] = Told{Output: one}
		if one.Secret {
			now[name] = Told{one, d.Secret}
		}
	}
	o.told[e.Target] = now
	if command == "destroy" {
		return
	}
	for _, name := range d.Unknown {
		if was, known := before[name]; known {
			now[name] = was
		}
	}
}

// Of are those of a target, and whether it was applied.
func (o *Outputs) Of(target deploylog.Target) (map[string]Told, bool) {
	told, applied := o.told[target]
	return maps.Clone(told), applied
}

// Output is the value of an output, also of a secret one.
func (m Memory) Output(name string, t Told) (any, error) {
	switch {
	case !t.Secret:
		return t.Value, nil
	case t.secret == nil:
		return nil, fmt.Errorf("the output %q is a secret, and the run that evaluated it did not keep its value: apply again", name)
	case m.Protected == nil:
		return nil, fmt.Errorf("the output %q is a secret, whose value is kept where the log is: ask there", name)
	}
	var all map[string]json.RawMessage
	if err := m.Protected.Get(*t.secret, &all); err != nil {
		return nil, fmt.Errorf("the output %q is a secret: %w; or apply again", name, err)
	}
	dec := json.NewDecoder(bytes.NewReader(all[name]))
	dec.UseNumber() // a number stays what it was, however large
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, fmt.Errorf("the output %q is a secret, and its value is not kept: apply again", name)
	}
	return value, nil
}

// secretOutputs keeps the values of secret outputs of manifests that are applied for themselves:
// nobody asks for those of a place.
func (r *Run) secretOutputs(e report.Event) (*protected.Ref, error) {
	values := e.Outputs.Secrets()
	if len(values) == 0 || r.o.Place != "" {
		return nil, nil
	}
	if r.o.Protected == nil {
		return nil, errors.New("outputs are secret, and there is no place for them")
	}
	ref, err := r.o.Protected.Put(values)
	if err != nil {
		return nil, fmt.Errorf("the values of secret outputs: %w", err)
	}
	return &ref, nil
}
