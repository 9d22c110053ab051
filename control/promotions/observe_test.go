package promotions

import (
	"testing"

	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
)

func TestARevisionComesAnewOnlyAfterAnotherWasThere(t *testing.T) {
	const finished, superseded = report.DeploymentFinished, report.DeploymentSuperseded
	for name, c := range map[string]struct {
		all  []report.Deployment
		want int64
	}{
		"none":                      {nil, 0},
		"the first":                 {[]report.Deployment{{Seq: 3, Revision: 1, Status: report.DeploymentRunning}}, 3},
		"the same again":            {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 9, Revision: 1, Status: finished}}, 3},
		"after another":             {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 6, Revision: 2, Status: finished}, {Seq: 9, Revision: 1, Status: finished}}, 9},
		"another failed":            {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 6, Revision: 2, Status: superseded}, {Seq: 9, Kind: record.ByRollback, Automatic: true, Revision: 1, Status: finished}}, 3},
		"another failed in a row":   {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 5, Revision: 2, Status: superseded}, {Seq: 6, Revision: 3, Status: report.DeploymentStuck}, {Seq: 9, Revision: 1, Status: finished}}, 3},
		"another failed in a bake":  {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 6, Revision: 2, Status: superseded, BakeFailed: "died"}, {Seq: 9, Automatic: true, Revision: 1, Status: finished}}, 9},
		"another failed at first":   {[]report.Deployment{{Seq: 6, Revision: 2, Status: superseded}, {Seq: 9, Revision: 1, Status: finished}}, 9},
		"after it was all deleted":  {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 6, Kind: record.ByDelete, Status: superseded}, {Seq: 9, Revision: 1, Status: finished}}, 9},
		"another has not ended yet": {[]report.Deployment{{Seq: 3, Revision: 1, Status: finished}, {Seq: 6, Revision: 2, Status: report.DeploymentRunning}}, 6},
	} {
		if got := came(c.all, values{known: map[int]string{0: "", 1: "1", 2: "2", 3: "3"}}); got != c.want {
			t.Errorf("%s: it came with event %d, not %d", name, got, c.want)
		}
	}
}
