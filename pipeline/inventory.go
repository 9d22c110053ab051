package pipeline

import (
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Bound is the inventory over which the queries of the definition are: by its name, or by
// the path of its file where it has none. "" is any, of a pipeline that selects no hosts, or
// that a former version defined.
func (s *State) Bound() string { return s.inventory }

// OtherThan is why who has another inventory leaves the pipeline alone; nil where it is the
// one that the pipeline is bound to. Hosts of one inventory are not those of another, also
// where they have the same names.
func (s *State) OtherThan(inventory string) *reason.Reason {
	if s.inventory == "" || s.inventory == inventory {
		return nil
	}
	return &reason.Reason{Code: reason.OtherInventory, Target: s.target, Event: record.MembersChanged, Name: s.inventory, Cause: inventory, By: s.target, ByEvent: record.PipelineDefined, Seq: s.defined}
}
