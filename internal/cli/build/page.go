package build

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/internal/cli/exit"
)

// page is which of many jobs are listed.
type page struct {
	after int // the number behind which it begins
	first int // how many it has at most; 0 is all
}

func (p *page) register(c *cobra.Command) {
	c.Flags().IntVar(&p.after, "after", 0, "only jobs with a higher number than N")
	c.Flags().IntVar(&p.first, "first", 0, "only the first N jobs (0 is all)")
}

func (p *page) check() error {
	switch {
	case p.after < 0:
		return exit.Usage("--after %d: it must not be negative", p.after)
	case p.first < 0:
		return exit.Usage("--first %d: it must not be negative", p.first)
	}
	return nil
}

// of are the jobs of the page, and how many follow it.
func (p *page) of(jobs []build.JobReport) (shown []build.JobReport, left int) {
	shown = slices.DeleteFunc(jobs, func(j build.JobReport) bool { return j.Number <= p.after })
	if p.first > 0 && len(shown) > p.first {
		shown, left = shown[:p.first], len(shown)-p.first
	}
	return shown, left
}
