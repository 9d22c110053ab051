package complete

import (
	"slices"
	"strconv"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
)

// newestGroups is how many build groups are proposed.
const newestGroups = 50

// buildGroups are the newest build groups, newest first.
func buildGroups(c *Completion) {
	c.pass(c.args...)
	for _, e := range slices.Backward(c.events(deploylog.Filter{Name: record.GroupTriggered, Last: newestGroups})) {
		if id, _, ok := record.Parse(e.Target); ok {
			c.propose(id, phrase.Moment(e.CreatedAt))
		}
	}
}

// buildJobs are what the jobs of the build group on the command line build.
func buildJobs(c *Completion) {
	if len(c.args) == 0 {
		return
	}
	for _, e := range c.events(deploylog.Filter{Target: record.Group(c.args[0]), Name: record.JobsCreated}) {
		for _, j := range record.Decode[record.Jobs](e).Jobs {
			name := j.Package
			if j.Of > 1 {
				name += "#" + strconv.Itoa(j.Pass)
			}
			c.propose(name, j.Version)
		}
	}
}
