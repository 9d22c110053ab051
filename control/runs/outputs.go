package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/manifest/address"
	"github.com/deployster-go/deployster/runner/report"
)

// Told is an output of a manifest as the log has it: the value of a secret one is in a protected
// document.
type Told struct {
	report.Output
	secret *protected.Ref
	seq    int64 // of the event that has it
}

// Outputs are what manifests told when they were last applied, by the targets of their runs.
type Outputs struct {
	told     map[deploylog.Target]map[string]Told
	commands map[string]string  // of runs
	removals map[string]removal // by run, of those that did not end well
}

// removal is the start of a run that destroys.
type removal struct {
	target deploylog.Target
	seq    int64
	reads  map[string][]string // by output
}

// ReadOutputs reads those of a target from the log; of "run/" those of all.
func ReadOutputs(ctx context.Context, log deploylog.Log, target deploylog.Target) (*Outputs, error) {
	o := &Outputs{map[deploylog.Target]map[string]Told{}, map[string]string{}, map[string]removal{}}
	for e, err := range log.Read(ctx, deploylog.Filter{Target: target}) {
		if err != nil {
			return nil, fmt.Errorf("reading the outputs of %s: %w", target, err)
		}
		switch e.Name {
		case e.Target.Started():
			d := DataOf(e)
			if o.commands[e.Deployment] = d.Details["command"]; d.Reads != nil {
				o.removals[e.Deployment] = removal{e.Target, e.Seq, d.Reads}
			}
		case e.Target.Succeeded():
			o.fold(e)
		}
	}
	for run, r := range o.removals {
		if err := o.dropGone(ctx, log, run, r); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// fold has an apply replace the outputs that it knows. After a destroy those stay that read nothing of
// what it removed, unless it removed everything.
func (o *Outputs) fold(e deploylog.Event) {
	d, command := DataOf(e), o.commands[e.Deployment]
	delete(o.commands, e.Deployment)
	delete(o.removals, e.Deployment)
	if command == "adopt" {
		return // that evaluates none
	}
	before, now := o.told[e.Target], make(map[string]Told, len(d.Outputs.Outputs))
	for name, one := range d.Outputs.Outputs {
		now[name] = Told{Output: one, seq: e.Seq}
		if one.Secret {
			now[name] = Told{one, d.Secret, e.Seq}
		}
	}
	o.told[e.Target] = now
	for _, name := range d.Unknown {
		if was, known := before[name]; known {
			now[name] = was
		}
	}
}

// dropGone drops the outputs that read what a run removed that did not end well, or has not ended.
func (o *Outputs) dropGone(ctx context.Context, log deploylog.Log, run string, r removal) error {
	told := o.told[r.target]
	older := func(one Told) bool { return one.seq < r.seq }
	if !slices.ContainsFunc(slices.Collect(maps.Values(told)), older) {
		return nil // they were evaluated since
	}
	gone := map[string]bool{}
	for e, err := range log.Read(ctx, deploylog.Filter{Deployment: run, Target: "resource/"}) {
		if err != nil {
			return fmt.Errorf("reading what run %s removed: %w", run, err)
		}
		ended := e.Name == e.Target.Succeeded() // as one that was gone already
		if _, name, _ := parts(e.Target); ended || e.Name == string(report.ResourceDestroyed) {
			gone[name], gone[address.Declared(name)] = true, true
		}
	}
	for name, one := range told {
		reads, declared := r.reads[name]
		lost := !declared && len(gone) > 0 // it is not known what it read
		if older(one) && (lost || slices.ContainsFunc(reads, func(read string) bool { return gone[read] })) {
			delete(told, name)
		}
	}
	return nil
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
