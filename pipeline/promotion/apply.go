package promotion

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// Where a stage on hosts has the strategy deploy, its manifest is applied on them. That is no
// more than a try: as with a webhook, it ends well when the hosts are seen to run the revision as
// a whole. Who dies while it is under way is replaced by another that applies it again, which
// changes nothing where all is as it is to be.

// observedWithin is how long hosts may take to run what was applied there.
const observedWithin = 5 * time.Minute

// applies reports whether a try applies the manifest of a stage on hosts.
func (p *Promotion) applies() bool { return p.Strategy == "" && definition.OnHosts(p.Environment) }

// applying reports whether a revision is being applied, which may be nil. It is nowhere before
// that has ended, or two of one stage could be at work on its hosts.
func (p *Promotion) applying(revision string) bool {
	return p != nil && p.Status == Running && p.applies() && !p.triggered() && p.Revision == revision
}

// arrives reports whether somebody else brings a revision to a stage of which a part runs it: it
// was never to be applied there.
func (s *State) arrives(stage, revision string, seen Observation) bool {
	return seen.anywhere(revision) && !slices.ContainsFunc(s.promotions, func(p *Promotion) bool {
		return p.Stage == stage && p.Revision == revision && p.applies()
	})
}

// MayApply is why a step may not be applied on the hosts that are selected, as of what was
// recorded since it was decided; nil is nothing.
func (s *State) MayApply(step Step, hosts []string) error {
	if err := s.Forbids(step, Observation{}); err != nil { // nobody rolls it back here
		return err
	}
	stage := s.definition.Stages[s.definition.Index(step.Stage)]
	if stage.Targets == nil || stage.Environment != step.Environment {
		return errors.New("its stage is another one by now")
	}
	if len(hosts) == 0 {
		return fmt.Errorf("%s selects no host", stage.Targets.Hosts)
	}
	if k := s.sighted[step.Stage]; k != nil {
		if why := stage.Targets.Losing(k.members, hosts); why != "" {
			return errors.New(why)
		}
	}
	return nil
}

// MayVerify is on which hosts what verifies a step may be applied, as of what was recorded since
// it was decided, and the revision as their variable has it; ok is false where it is of no use.
func (s *State) MayVerify(step Step) (hosts []string, value any, ok bool) {
	k := s.sighted[step.Stage]
	if k == nil || !s.Verifies(step) {
		return nil, nil, false
	}
	o := k.observation()
	if o.Health != Whole || !s.verifications[step.Stage].of(step.Environment, o) {
		return nil, nil, false
	}
	return k.hosts(), o.Value, true
}
