package oci

import (
	"maps"
	"sync"
)

// own are the containers that this very engine runs. What their records say it knows
// without reading them: to list the containers would else cost more than to run one
// where there are many.
type own struct {
	mu   sync.Mutex
	byID map[string]*ownRecord
}

// ownRecord is the record of a container that this engine runs. It holds the lock on
// it as long as it is one of the engine's own.
type ownRecord struct {
	recordFile
	id    string
	mu    sync.Mutex
	known record // what the file says
}

// keep makes the record of a new container.
func (e *Engine) keep(first record) (*ownRecord, error) {
	id, file, err := e.dir.createRecord(first)
	if err != nil {
		return nil, err
	}
	first.Created, first.Labels = first.Created.Round(0), maps.Clone(first.Labels) // as they are read
	r := &ownRecord{recordFile: file, id: id, known: first}
	e.own.mu.Lock()
	defer e.own.mu.Unlock()
	if e.own.byID == nil {
		e.own.byID = map[string]*ownRecord{}
	}
	e.own.byID[id] = r
	return r, nil
}

// add completes the record by how far the container has come.
func (r *ownRecord) add(more record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.recordFile.add(more); err != nil {
		return err
	}
	r.known.Started = r.known.Started || more.Started
	if more.Exit != nil {
		r.known.Exit = more.Exit
	}
	return nil
}

func (o *own) remove(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byID, id)
}

// look returns the record of a container of this engine's own. The labels are there,
// as the caller's to keep, where they hold all that are wanted.
func (o *own) look(id string, wanted map[string]string) (known record, is bool) {
	o.mu.Lock()
	r := o.byID[id]
	o.mu.Unlock()
	if r == nil {
		return record{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known = r.known
	if carries(known.Labels, wanted) {
		known.Labels = maps.Clone(known.Labels)
	}
	return known, true
}
