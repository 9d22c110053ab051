package promotion

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// Where a stage has the strategy pull-request, a revision is proposed to a git repository, by a
// branch and a pull request. A try is under way until the environment is observed to run it:
// before it is merged people take the time they need, and it is looked what they did; then it
// must come about within a time. Who closes it declines the revision. What is proposed and not
// wanted any more is withdrawn, unless a newer revision takes its place there.

// proposal is what may be open at a place.
type proposal struct {
	promotion *Promotion
	pull      *definition.PullRequest
	attempt   int
}

// open reports whether what its try proposed may be merged or closed by somebody.
func (p *Promotion) open() bool {
	return p.Status == Running && p.Strategy == definition.WithPullRequest && p.triggered() && p.Merged.IsZero()
}

// taken reports whether the repository has what its try proposed, which its environment does not
// run yet.
func (p *Promotion) taken() bool {
	return p.Status == Running && p.Strategy == definition.WithPullRequest && p.triggered() && !p.Merged.IsZero()
}

// proposed notes what a try that begins proposes.
func (s *State) proposed(p *Promotion) {
	p.pull = nil
	if p.Strategy != definition.WithPullRequest {
		return
	}
	if i := s.definition.Index(p.Stage); i >= 0 && s.definition.Stages[i].PullRequest != nil {
		p.pull = s.definition.Stages[i].PullRequest
		s.proposals[p.pull.Place()] = proposal{p, p.pull, p.Attempt}
	}
}

// redefined has what is proposed looked after as the definition says now.
func (s *State) redefined() {
	for _, stage := range s.definition.Stages {
		p := s.last[stage.Name]
		if p == nil || p.pull == nil || stage.PullRequest == nil || !p.pull.Same(stage.PullRequest) {
			continue
		}
		p.pull = stage.PullRequest
		if open, is := s.proposals[p.pull.Place()]; is && open.promotion == p {
			open.pull = p.pull
			s.proposals[p.pull.Place()] = open
		}
	}
}

// settled notes that nothing is to be done any more about what a promotion proposed.
func (s *State) settled(p *Promotion) {
	if p.pull != nil && s.proposals[p.pull.Place()].promotion == p {
		delete(s.proposals, p.pull.Place())
	}
}

// withdrawn notes that what a try proposed is closed.
func (s *State) withdrawn(e deploylog.Event) {
	maps.DeleteFunc(s.proposals, func(_ string, open proposal) bool {
		return open.promotion.ID == e.Deployment && open.attempt == e.Attempt
	})
}

// declines reports whether somebody closed what a promotion proposed to where it would be
// proposed again, and nobody has released it since.
func (s *State) declines(p *Promotion, stage *definition.Stage) bool {
	return p.Declined && s.released[p.Stage] < p.Since && p.pull != nil && stage.PullRequest != nil && p.pull.Place() == stage.PullRequest.Place()
}

func (s *State) declined(p *Promotion, begun Begun) []deploylog.Event {
	return []deploylog.Event{s.event(p, StageFailed, p.Attempt, Payload{Cause: deploylog.Cause(begun.Answer), Declined: true})}
}

// Proposal is something proposed that is to be looked after.
type Proposal struct {
	Step
	Pull *definition.PullRequest
}

// Open are the proposals that wait for somebody, of which it is to be looked what became.
func (s *State) Open() []Proposal { return s.proposalsThat((*Promotion).open) }

// Taken are the proposals that a repository has, and that no environment runs yet: of these it is
// to be looked whether somebody sets another value.
func (s *State) Taken() []Proposal { return s.proposalsThat((*Promotion).taken) }

func (s *State) proposalsThat(are func(*Promotion) bool) (all []Proposal) {
	if s.definition == nil {
		return nil
	}
	for _, stage := range s.definition.Stages {
		if p := s.last[stage.Name]; p != nil && are(p) && p.pull != nil {
			all = append(all, Proposal{s.stepOf(p), p.pull})
		}
	}
	return all
}

// Reverted returns what is to be recorded of a proposal that the repository had taken and that has
// another value now: the try has failed, for nothing brings the revision any more. It is nothing
// where that makes no difference by now.
func (s *State) Reverted(of Proposal, has string) []deploylog.Event {
	p := s.byID[of.ID]
	if p == nil || !s.Wanted(of.ID, of.Attempt) || !p.taken() || has == p.Revision {
		return nil
	}
	cause := fmt.Sprintf("branch %s has %.60q and not revision %s any more, after %s", of.Pull.Base, has, p.Revision, p.Answer)
	return []deploylog.Event{s.event(p, StageFailed, of.Attempt, Payload{Cause: deploylog.Cause(cause)})}
}

// Looked returns what is to be recorded of a proposal that was looked at; begun says what
// became of it. It is nothing where that is as it was, or nobody wants the try any more.
func (s *State) Looked(of Proposal, begun Begun, err error) []deploylog.Event {
	p := s.byID[of.ID]
	switch {
	case p == nil || !s.Wanted(of.ID, of.Attempt) || !p.open():
		return nil
	case err != nil:
		return []deploylog.Event{s.event(p, StageFailed, of.Attempt, Payload{Cause: deploylog.Cause(err.Error())})}
	case begun.Declined:
		return s.declined(p, begun)
	case begun.Taken:
		return []deploylog.Event{s.event(p, Merged, of.Attempt, Payload{Answer: begun.Answer})}
	default:
		return nil
	}
}

// Unwanted are the proposals that are to be withdrawn: of promotions that were given up, and
// where their stages propose nothing any more.
func (s *State) Unwanted(o Observed, now time.Time) (all []Proposal) {
	if s.definition == nil || len(s.proposals) == 0 {
		return nil
	}
	next := map[string]bool{} // places to which a revision is about to come
	for _, v := range s.verdicts(o, now) {
		if pull := s.definition.Stages[v.stage].PullRequest; v.code == Ready && pull != nil {
			next[pull.Place()] = true
		}
	}
	for _, place := range slices.Sorted(maps.Keys(s.proposals)) {
		if open := s.proposals[place]; !next[place] && !s.wants(place, open) {
			step := s.stepOf(open.promotion)
			step.Attempt = open.attempt
			all = append(all, Proposal{step, open.pull})
		}
	}
	return all
}

// wants reports whether what a promotion proposed at a place is still to be there.
func (s *State) wants(place string, open proposal) bool {
	i := s.definition.Index(open.promotion.Stage)
	if status := open.promotion.Status; i < 0 || status == Superseded || status == Finished { // finished without it
		return false
	}
	now := s.definition.Stages[i].PullRequest
	return now != nil && now.Place() == place
}

// StillUnwanted reports whether a proposal is to be withdrawn, as of what was recorded since.
func (s *State) StillUnwanted(of Proposal) bool {
	place := of.Pull.Place()
	open, is := s.proposals[place]
	return is && s.definition != nil && open.promotion.ID == of.ID && open.attempt == of.Attempt && !s.wants(place, open)
}

// Withdrew returns what is to be recorded of a proposal that was withdrawn.
func (s *State) Withdrew(of Proposal) []deploylog.Event {
	p := s.byID[of.ID]
	if p == nil || !s.StillUnwanted(of) {
		return nil
	}
	return []deploylog.Event{s.event(p, Withdrawn, of.Attempt, Payload{Strategy: string(definition.WithPullRequest)})}
}
