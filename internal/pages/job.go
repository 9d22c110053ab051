package pages

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
)

// jobBody is a job of a build group, with what it printed.
type jobBody struct {
	build.JobReport
	GroupName string
	Failure   *build.JobReport  // the job because of which this one is not built
	Uses      []build.JobReport // of the same group
	Original  string            // path of the page of the job whose artifact it has
	Reasons   []query.BuildReason
	Log       jobLog
}

// jobLog is the end of what a job printed, or its beginning.
type jobLog struct {
	Attempt  int // 0 is that it never ran
	Text     string
	Bytes    int64  // of all of it
	Begins   bool   // it is the beginning that is shown
	Part     bool   // it is not all
	Growing  bool   // the job still prints
	NoneHere string // why there is none
}

// The part of a log that a page shows, and after how many milliseconds it asks for more.
const (
	shownLog = 128 << 10
	askAgain = 2000
)

// job is one job of a build group.
func (p *Pages) job(r *http.Request, k *known) (page, error) {
	j, err := k.builds.Job(r.PathValue("id"), r.PathValue("job"))
	if err != nil {
		return page{}, err
	}
	group, _, err := k.builds.Jobs(j.Group)
	if err != nil {
		return page{}, err
	}
	body := jobBody{JobReport: j, GroupName: group.Name}
	for _, use := range j.Uses {
		if of, err := k.builds.Job(j.Group, fmt.Sprint(use.Job)); err == nil && use.Job > 0 {
			body.Uses = append(body.Uses, of)
		}
	}
	if j.Because > 0 {
		if of, err := k.builds.Job(j.Group, fmt.Sprint(j.Because)); err == nil {
			body.Failure = &of
		}
	}
	if f := j.Finished; f != nil && f.Reused != "" {
		if id, number, ok := record.Parse(f.Reused); ok {
			body.Original = pathOf("builds", id, number)
		}
	}
	if !j.State.Ended() && !j.State.InFlight() {
		if body.Reasons, err = k.builds.Explain(record.Job(j.Group, j.Number), nil, true); err != nil {
			return page{}, err
		}
	}
	shown := page{Title: "Job " + phrase.Cut(j.Package, 200), Tab: "builds", Follow: following(string(record.Job(j.Group, j.Number)), string(record.Group(j.Group)))}
	if body.Original == "" {
		body.Log = p.logOf(j, k.past, r.URL.Query().Get("log") == "beginning")
	}
	if body.Log.Growing {
		shown.Again = askAgain
	}
	shown.Body = body
	return shown, nil
}

// logOf is what the last attempt of a job printed. It is a file, which has only what is there
// at present: of an earlier moment there is no log of what ran then.
func (p *Pages) logOf(j build.JobReport, past, beginning bool) (l jobLog) {
	l.Attempt = jobs.LoggedAttempt(j)
	l.Growing = j.State.InFlight() && !past
	switch {
	case l.Attempt == 0:
		return l
	case past && j.State.InFlight():
		l.NoneHere = "What it had printed by then is not known; the present page has what it has printed since."
		return l
	}
	f, err := jobs.OpenLog(p.Workspace, j.Group, j.Number, l.Attempt)
	switch {
	case errors.Is(err, fs.ErrNotExist) && l.Growing:
		l.NoneHere = "It has printed nothing here yet."
		return l
	case errors.Is(err, fs.ErrNotExist):
		l.NoneHere = "Its log is not here any more: gc removes old logs, and a job that another workspace ran has its log there."
		return l
	case err != nil:
		p.Logger.Error("the log of a job cannot be read", "group", j.Group, "job", j.Number, "error", err)
		l.NoneHere = "Its log cannot be read; the log of the server says why."
		return l
	}
	defer f.Close() //nolint:errcheck // opened for reading
	info, err := f.Stat()
	if err == nil {
		l.Bytes = info.Size()
		l.Part, l.Begins = l.Bytes > shownLog, beginning || l.Bytes <= shownLog
		from := int64(0)
		if !l.Begins {
			from = l.Bytes - shownLog
		}
		var text []byte
		if text, err = io.ReadAll(io.NewSectionReader(f, from, shownLog)); err == nil {
			l.Text = strings.ToValidUTF8(string(text), "\ufffd")
		}
	}
	if err != nil {
		p.Logger.Error("the log of a job cannot be read", "group", j.Group, "job", j.Number, "error", err)
		l.NoneHere = "Its log cannot be read; the log of the server says why."
	}
	return l
}
