package jobs

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/deployster-go/deployster/build"
)

// The files that say how far an attempt has come.
const (
	begunName    = "begun.json"
	endedName    = "ended.json"
	resultSuffix = ".result"
)

// write makes a file that holds one JSON object. It need not outlive the machine.
func write(path string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// read reads what write wrote, and reports whether it is there whole: no part of an object is
// one.
func read(path string, into any) bool {
	text, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(text, into) == nil
}

// resultsKept is how long a result is kept at least, so that it is in the log by then.
const resultsKept = time.Minute

// result is the file of a result.
type result struct {
	path string
	at   time.Time
}

// keep keeps the result of an attempt for whoever resumes it.
func (a *attempt) keep(r build.Result) error {
	if err := write(a.dir+resultSuffix, r); err != nil {
		return err
	}
	a.kept()
	return nil
}

// kept has the result that is there forgotten once it is recorded.
func (a *attempt) kept() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.results = append(a.results, result{a.dir + resultSuffix, time.Now()})
}

// forget removes the results of this process that are older than that and recorded.
func (j *Jobs) forget(age time.Duration) {
	j.mu.Lock()
	n := 0
	for n < len(j.results) && time.Since(j.results[n].at) >= age {
		n++
	}
	old := slices.Clone(j.results[:n])
	j.results = j.results[n:]
	j.mu.Unlock()
	for _, r := range old {
		if age > 0 && !j.recorded(r.path) {
			j.mu.Lock()
			j.results = append(j.results, result{r.path, time.Now()})
			j.mu.Unlock()
			continue
		}
		_ = os.Remove(r.path) // at worst it stays until the job is done again
	}
}

// recorded reports whether a result is in the log, as far as that can be known.
func (j *Jobs) recorded(path string) bool {
	target, attempt, ours := attemptOf(filepath.Base(path))
	if j.Over == nil || !ours {
		return true
	}
	over, err := j.Over(context.Background(), target, attempt)
	return err == nil && over
}

// Close removes the results of this process, all of which are recorded.
func (j *Jobs) Close() {
	j.forget(0)
	j.views.Close()
}

// discard removes the directory of the attempt.
func (a *attempt) discard() {
	ctx := context.Background()
	if err := a.removeAll(ctx, a.worker, a.dir); err != nil {
		a.leftBehind(ctx, a.dir, err)
	}
}
