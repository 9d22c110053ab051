package environment

import (
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/internal/refusal"
)

// Bound is the inventory that the query of the environment is over: by its name, or by the
// path of its file where it has none. It is that of the newest revision, whichever is
// deployed; "" is any, of an environment that a former version made.
func (s *State) Bound() string { return s.inventory }

// OtherThan is why who has another inventory leaves the environment alone; nil where it is
// the one that it is bound to. Hosts of one inventory are not those of another, also where
// they have the same names.
func (s *State) OtherThan(inventory string) *reason.Reason {
	if s.inventory == "" || s.inventory == inventory {
		return nil
	}
	d := s.details()
	d.Inventory, d.Here = s.inventory, inventory
	r := d.Explain(reason.ForeignInventory, s.target)
	return &r
}

// checkInventory refuses to take the hosts of another inventory than the one that the
// environment is bound to.
func (s *State) checkInventory(c Command) error {
	of := ""
	switch c := c.(type) {
	case Deploy:
		of = c.Inventory
	case Rollback:
		of = c.Inventory
	case Restart:
		of = c.Inventory
	case ConfirmHosts:
		of = c.Inventory
	case Adopt:
		of = c.Inventory
	case AdoptFrom:
		of = c.Inventory
	}
	if of == "" {
		return nil
	}
	if why := s.OtherThan(of); why != nil {
		return refusal.New(OtherInventory, "environment %s is not of this inventory: %s; what helps is %s", s.name, why.Message, why.Change)
	}
	return nil
}
