package pages

import (
	"slices"

	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// promotionBody is a pipeline that promotes by observed state.
type promotionBody struct {
	promotion.Report
	Working bool // somebody is at work on it
}

// promoted is the status of a pipeline that promotes by observed state; is is false where
// none has the name.
func (k *known) promoted(name string) (r promotion.Report, working, is bool, err error) {
	if !slices.Contains(k.promotions.Present(), name) {
		return r, false, false, nil
	}
	working = k.present() && k.promotions.Controlled(name)
	err = k.promotions.Ask(name, func(s *promotion.State) error {
		controlled := k.environments.Controlled
		if !working { // what is observed then is what the log says
			controlled = nil
		}
		r = s.Report(promotions.Observe(k.environments.Environments, s, controlled), k.promotions.Now())
		return nil
	})
	return r, working, true, err
}

// promotedPipeline is the page of a pipeline that promotes by observed state.
func (p *Pages) promotedPipeline(k *known, name string) (shown page, is bool, err error) {
	r, working, is, err := k.promoted(name)
	if !is || err != nil {
		return page{}, is, err
	}
	targets := []string{"pipeline/" + name, "stage/" + name}
	for _, s := range r.Stages {
		targets = append(targets, "environment/"+s.Environment, "task/"+s.Environment)
	}
	return page{Title: name, Tab: "overview", look: "promotion", Follow: following(targets...), Body: promotionBody{r, working}}, true, nil
}
