package query

import (
	buildrecord "github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Cause is why that has happened what an event of a pipeline or a build group says, ""
// where it does not say so.
func Cause(e deploylog.Event) string {
	if _, ok := record.NameOf(e.Target); ok {
		return record.Cause(e)
	}
	return buildrecord.Cause(e)
}
