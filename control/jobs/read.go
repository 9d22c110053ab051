package jobs

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/internal/regularfile"
)

// LoggedAttempt is the last attempt of a job that has a log; 0 is none. The last one may only
// have pushed what an earlier one had built.
func LoggedAttempt(j build.JobReport) int {
	if f := j.Finished; f != nil && f.Reused == "" {
		for attempt := j.Attempt - 1; attempt > 0; attempt-- {
			if f.Log == LogName(j.Group, j.Number, attempt) {
				return attempt
			}
		}
	}
	return j.Attempt
}

// OpenLog opens the log of an attempt of a job for reading. Whatever is in its place may have
// been put there by a job: what is no regular file is refused.
func OpenLog(workspace, group string, job, attempt int) (*os.File, error) {
	name := LogName(group, job, attempt)
	if !filepath.IsLocal(name) {
		return nil, fmt.Errorf("build group %q is no name of a directory", group)
	}
	f, _, err := regularfile.OpenNoLink(filepath.Join(workspace, filepath.FromSlash(name)))
	return f, err
}
