package jobs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/deployster-go/deployster/build"
)

// The file that says how far an attempt has come: one, for on some disks it takes longer to make
// and to remove files than to write them. Once there is a result, it is beside the directory of
// the attempt, which is removed.
const (
	progressName = "progress"
	resultSuffix = ".result"
)

// progress is how far an attempt has come.
type progress struct {
	Begun  *begun        `json:"begun,omitempty"`
	Ended  *end          `json:"ended,omitempty"`
	Result *build.Result `json:"result,omitempty"`
}

// note adds to the file of an attempt that is there, or is made in a directory that is. It need
// not outlive the machine.
func note(path string, p progress) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	// What was noted before may have been cut short, and is a line of its own then.
	_, err = f.Write(append(append([]byte{'\n'}, text...), '\n'))
	return errors.Join(err, f.Close())
}

// noted reads what is noted: of each the last that is there whole, as no part of an object is one.
func noted(path string) (p progress) {
	text, err := os.ReadFile(path)
	if err != nil {
		return p
	}
	for line := range bytes.Lines(text) {
		var next progress
		if json.Unmarshal(line, &next) != nil {
			continue
		}
		p.Begun, p.Ended, p.Result = cmp.Or(next.Begun, p.Begun), cmp.Or(next.Ended, p.Ended), cmp.Or(next.Result, p.Result)
	}
	return p
}

// progress is where the file of the attempt is until there is a result.
func (a *attempt) progress() string { return filepath.Join(a.dir, progressName) }

// resultsKept is how long a result is kept at least, so that it is in the log by then.
const resultsKept = time.Minute

// result is the file of a result.
type result struct {
	path string
	at   time.Time
}

// keep keeps the result of an attempt for whoever resumes it.
func (a *attempt) keep(r build.Result) error {
	err := note(a.progress(), progress{Result: &r})
	if err == nil {
		err = os.Rename(a.progress(), a.dir+resultSuffix)
	} else if errors.Is(err, fs.ErrNotExist) { // there is no directory yet, or no more
		err = note(a.dir+resultSuffix, progress{Result: &r})
	}
	if err != nil {
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

// Wait waits until nothing is left of the jobs that have ended but their results.
func (j *Jobs) Wait() {
	for range cap(j.discarding) {
		j.discarding <- struct{}{}
	}
	for range cap(j.discarding) {
		<-j.discarding
	}
}

// Close waits, and removes the results of this process, all of which are recorded.
func (j *Jobs) Close() {
	j.Wait()
	j.forget(0)
	j.views.Close()
}

// discardBeside has the directory of the attempt removed while the next job begins. Where others
// are still being removed it is removed at once, or more could be left than is removed.
func (a *attempt) discardBeside() {
	remove := func() {
		defer a.wrote()
		a.discard()
	}
	select {
	case a.discarding <- struct{}{}:
		go func() {
			defer func() { <-a.discarding }()
			remove()
		}()
	default:
		remove()
	}
}

// discard removes the directory of the attempt.
func (a *attempt) discard() {
	ctx := context.Background()
	if err := a.removeAll(ctx, a.worker, a.dir); err != nil {
		a.leftBehind(ctx, a.dir, err)
	}
}
