package env

import (
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/query"
)

// freed is what would end that hosts are left out.
const freed = "the tasks of the other environment there being terminated, or an instance_group.query that does not select them"

// identify has environments asked what their tasks make, once for all of them.
func identify(a *app.App, e *query.Environments, inventory string) {
	if tasks, err := session.Identities(a, session.WorkerFlags{Inventory: inventory}, nil); err == nil {
		e.Identify(tasks.Things, nil)
	}
}

// leftOut is which hosts that the query of an environment selects here are left to other ones;
// nil is none, or that it is not known without its inventory. The environments are Identified.
func leftOut(e *query.Environments, name string, here *work.Hosts) *report.LeftOut {
	wanted, identity := "", here.Identity()
	err := e.Ask(name, func(s *environment.State) error {
		if s.OtherThan(identity) == nil {
			wanted = s.Query()
		}
		return nil
	})
	if err != nil || wanted == "" {
		return nil
	}
	hosts, err := here.Selected(wanted)
	if err != nil {
		return nil
	}
	left, why := e.LeftOut(name, hosts)
	if why == nil {
		return nil
	}
	return &report.LeftOut{Hosts: left, Cause: why.Error()}
}
