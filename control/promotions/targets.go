package promotions

import (
	"slices"

	"github.com/deployster-go/deployster/control/targets"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// observeHosts adds what the hosts of stages run to what is observed. It is what was recorded,
// if they were looked at since this process has the pipeline, and for the revisions that matter
// now; otherwise nobody knows.
func (c *Controller) observeHosts(s *promotion.State, all promotion.Observed) {
	if s.Definition() == nil {
		return
	}
	s.AddSightings(all)
	name := s.Name()
	var unseen []string
	for i, stage := range s.Definition().Stages {
		if stage.Targets == nil {
			continue
		}
		if c.targets == nil {
			unseen = append(unseen, stage.Environment)
			continue
		}
		c.targets.Use(targets.Stage{
			Pipeline: name, Name: stage.Name, Place: stage.Environment, Targets: *stage.Targets, Variable: s.Definition().Promotion.Variable, Candidates: s.Candidates(i, all),
		})
		if !slices.Contains(c.onHosts[name], stage.Environment) {
			c.onHosts[name] = append(c.onHosts[name], stage.Environment)
		}
		if _, ok := c.targets.Seen(stage.Environment); !ok {
			unseen = append(unseen, stage.Environment)
		}
	}
	for _, place := range unseen { // only now: what they ran says about what others may run
		o := all[place]
		o.Health, o.Moving, o.Why = promotion.Unknown, false, "its hosts are being looked at"
		all[place] = o
	}
}

// sightings are the events of what was seen of the hosts of a pipeline and is not recorded yet.
func (c *Controller) sightings(s *promotion.State) (events []deploylog.Event) {
	if s.Definition() == nil || c.targets == nil {
		return nil
	}
	for _, stage := range s.Definition().Stages {
		if stage.Targets == nil {
			continue
		}
		if seen, ok := c.targets.Seen(stage.Environment); ok {
			events = append(events, s.Sighted(stage.Name, seen)...)
		}
	}
	return events
}

// looked reports whether all hosts of a pipeline were looked at.
func (c *Controller) looked(name string) bool {
	return c.targets == nil || !slices.ContainsFunc(c.onHosts[name], func(place string) bool {
		_, ok := c.targets.Seen(place)
		return !ok
	})
}

// leaveHosts ends the observation of the stages of a pipeline but for those of some places.
func (c *Controller) leaveHosts(name string, but ...string) {
	for _, place := range c.onHosts[name] {
		if !slices.Contains(but, place) {
			c.targets.Leave(place)
		}
	}
	c.onHosts[name] = slices.DeleteFunc(c.onHosts[name], func(place string) bool { return !slices.Contains(but, place) })
	if len(c.onHosts[name]) == 0 {
		delete(c.onHosts, name)
	}
}

// changedHosts has the pipeline decided about whose hosts were seen.
func (c *Controller) changedHosts(place string) {
	for name, places := range c.onHosts {
		if slices.Contains(places, place) {
			c.loop.Enqueue(name)
		}
	}
}
