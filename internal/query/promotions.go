package query

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// Promotions answers questions about the pipelines of a log that promote by observed state,
// as both are followed.
type Promotions struct {
	*promotions.Promotions
	Environments *environments.Environments // what is observed
	Past         bool                       // nobody is at work then
}

// NewPromotions knows nothing until it is told to Follow. It reads the environments that e
// follows.
func NewPromotions(log deploylog.Log, now func() time.Time, e *Environments) Promotions {
	return Promotions{Promotions: promotions.New(log, now), Environments: e.Environments}
}

// PromotionRow is a pipeline in a list, in the columns of those whose revisions are released.
type PromotionRow struct {
	Deployed   string   `json:"deployed"`
	Failed     string   `json:"failed"`
	InProgress []string `json:"in_progress"`
	Name       string   `json:"pipeline"`
	Stages     int      `json:"stages"`
	Policy     string   `json:"promotion"`
}

// PromotionStatus is that of a pipeline, and whether somebody is at work on it.
type PromotionStatus struct {
	promotion.Report
	Working bool `json:"controlled"`
}

// List is the pipelines, by name.
func (p Promotions) List() (rows []PromotionRow, err error) {
	for _, name := range p.Present() {
		r, err := p.Report(name)
		if err != nil {
			return nil, err
		}
		row := PromotionRow{Name: name, Stages: len(r.Stages), Policy: string(r.Policy), Deployed: r.Completed, InProgress: []string{}}
		for _, s := range r.Stages {
			if of := s.Promotion; of != nil && of.Status == promotion.Failed {
				row.Failed = of.Revision
			}
			if next := s.Reason.Revision; next != "" && next != r.Completed && !slices.Contains(row.InProgress, next) {
				row.InProgress = append(row.InProgress, next)
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Status is that of a pipeline.
func (p Promotions) Status(name string) (PromotionStatus, error) {
	r, err := p.Report(name)
	return PromotionStatus{r, p.Working(name)}, err
}

// Report is the status of a pipeline, by what its environments run.
func (p Promotions) Report(name string) (r promotion.Report, err error) {
	err = p.Ask(name, func(s *promotion.State) error {
		r = s.Report(p.Observe(name, s), p.Now())
		return nil
	})
	return r, err
}

// Observe is what the environments of a pipeline run, as who is at work on it sees them. Where
// nobody is it is what the log says: then it is not acted on.
func (p Promotions) Observe(name string, s *promotion.State) promotion.Observed {
	if !p.Working(name) {
		return promotions.Observe(p.Environments, s, nil)
	}
	return promotions.Observe(p.Environments, s, p.Environments.Controlled)
}

// Working reports whether somebody is at work on a pipeline at present.
func (p Promotions) Working(name string) bool { return !p.Past && p.Controlled(name) }
