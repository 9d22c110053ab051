package promotions

import (
	"context"
	"slices"

	"github.com/deployster-go/deployster/control/clusters"
	"github.com/deployster-go/deployster/control/targets"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// observeSighted adds what the stages run that are no environments to what is observed. It is what was
// recorded, if they were looked at since this process has the pipeline, and for the revisions that
// matter now; otherwise nobody knows.
func (c *Controller) observeSighted(s *promotion.State, all promotion.Observed) {
	if s.Definition() == nil {
		return
	}
	s.AddSightings(all)
	name := s.Name()
	var unseen []*definition.Stage
	for i := range s.Definition().Stages {
		stage := &s.Definition().Stages[i]
		if !stage.Sighted() {
			continue
		}
		switch {
		case stage.Targets != nil && c.targets != nil:
			c.targets.Use(targets.Stage{
				Pipeline: name, Name: stage.Name, Place: stage.Environment, Targets: *stage.Targets, Variable: s.Definition().Promotion.Variable, Candidates: s.Candidates(i, all),
			})
		case stage.Targets == nil && c.objects != nil:
			c.objects.Use(c.objectsOf(name, stage))
		}
		c.sights[stage.Environment] = name
		if !slices.Contains(c.sighted[name], stage.Environment) {
			c.sighted[name] = append(c.sighted[name], stage.Environment)
		}
		if _, ok := c.sees(stage.Environment); !ok {
			unseen = append(unseen, stage)
		}
	}
	for _, stage := range unseen { // only now: what they ran says about what others may run
		o := all[stage.Environment]
		o.Health, o.Moving, o.Why = promotion.Unknown, false, "its hosts are being looked at"
		if stage.Targets == nil {
			o.Why = "its objects are being looked at"
		}
		all[stage.Environment] = o
	}
}

// objectsOf is how a stage of objects is observed.
func (c *Controller) objectsOf(pipeline string, stage *definition.Stage) clusters.Stage {
	s := clusters.Stage{Place: stage.Environment, Objects: stage.Objects, Settle: stage.Settles()}
	if source := stage.ReadsSource(); source != nil {
		s.Source = source
		s.ValueIn = func(ctx context.Context, commit string) (string, error) {
			place, err := c.placeOf(pipeline, source)
			if err != nil {
				return "", err
			}
			return c.pulls.ValueIn(ctx, place, commit)
		}
	}
	return s
}

// sees is what a stage that is no environment was seen to run; ok is false where that is not known.
func (c *Controller) sees(place string) (seen promotion.Sighting, ok bool) {
	if c.targets != nil {
		if seen, ok = c.targets.Seen(place); ok {
			return seen, ok
		}
	}
	if c.objects != nil {
		return c.objects.Seen(place)
	}
	return seen, false
}

// sightings are the events of what was seen of the stages of a pipeline and is not recorded yet.
func (c *Controller) sightings(s *promotion.State) (events []deploylog.Event) {
	if s.Definition() == nil {
		return nil
	}
	for _, stage := range s.Definition().Stages {
		if !stage.Sighted() {
			continue
		}
		if seen, ok := c.sees(stage.Environment); ok {
			events = append(events, s.Sighted(stage.Name, seen)...)
		}
	}
	return events
}

// looked reports whether all stages of a pipeline were looked at that somebody looks at from here.
func (c *Controller) looked(name string) bool {
	return !slices.ContainsFunc(c.sighted[name], func(place string) bool {
		if definition.OnHosts(place) && c.targets == nil || !definition.OnHosts(place) && c.objects == nil {
			return false
		}
		_, ok := c.sees(place)
		return !ok
	})
}

// leaveSighted ends the observation of the stages of a pipeline but for those of some places.
func (c *Controller) leaveSighted(name string, but ...string) {
	for _, place := range c.sighted[name] {
		if slices.Contains(but, place) {
			continue
		}
		if c.targets != nil {
			c.targets.Leave(place)
		}
		if c.objects != nil {
			c.objects.Leave(place)
		}
		delete(c.sights, place)
	}
	c.sighted[name] = slices.DeleteFunc(c.sighted[name], func(place string) bool { return !slices.Contains(but, place) })
	if len(c.sighted[name]) == 0 {
		delete(c.sighted, name)
	}
}

// changedPlace has the pipeline decided about of which a stage was seen.
func (c *Controller) changedPlace(place string) {
	if name := c.sights[place]; name != "" {
		c.spotted.Add(name)
		c.loop.Enqueue(name)
	}
}
