// Package querytest makes logs of the size at which a list of everything is of no use to
// anybody: a pipeline of twenty stages, and an environment, with hundreds of hosts and dozens
// of revisions, some of which have failed, wait, or are under way.
package querytest

import (
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Pipeline and Environment are the names of what the logs are about.
const (
	Pipeline    = "gateway"
	Environment = "shop/prod"
)

// Hostile is a reason as somebody gives it who wants to drive the terminal of who reads it,
// with characters of no width, of two cells, and a second line.
const Hostile = "rolled \x1b[31mback\x1b]0;owned\x07 \u202eevil\u202c 部署失败 e\u0301\r\n\x1b[2Jsecond line"

// Long is a cause without any place to break it.
const Long = "connection-refused-"

// Noon is when the logs begin.
var Noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// journal is a log that is being written, with a state that is folded from it.
type journal struct {
	events []deploylog.Event
	apply  func(deploylog.Event)
	now    time.Time
	ids    int
}

// id is that of a fresh deployment.
func (j *journal) id() string {
	j.ids++
	return fmt.Sprintf("01J%023d", j.ids)
}

// record appends events, a fifth of a second after those before.
func (j *journal) record(events []deploylog.Event, err error) {
	if err != nil {
		panic(err)
	}
	j.now = j.now.Add(200 * time.Millisecond)
	for _, e := range events {
		e.Seq, e.CreatedAt = int64(len(j.events)+1), j.now
		j.events = append(j.events, e)
		j.apply(e)
	}
}

// Large is the log of a pipeline of twenty stages and of an environment, with so many hosts
// in each stage, of so many revisions, at least 13. The last twelve revisions of the pipeline
// have not ended well, or not ended. The events have their times and numbers, and no IDs.
func Large(hosts, revisions int) []deploylog.Event {
	j := &journal{now: Noon}
	newGateway(j, hosts).deploy(revisions)
	newShop(j, hosts).deploy(revisions)
	return slices.Clip(j.events)
}

// names are those of so many hosts of a group.
func names(group string, hosts int) (all []string) {
	for i := range hosts {
		all = append(all, fmt.Sprintf("%s-h%d", group, i+1))
	}
	return all
}
