package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
)

// logPart is how much of the log of a job is asked for at once, in bytes.
const logPart = 256 << 10

// JobLog is what a job has printed, as the server has it. It is not for several goroutines.
type JobLog struct {
	ctx    context.Context
	client *Client
	path   string
	size   int64 // when it was opened
	part   []byte
	at     int64 // of the part
}

// JobLog opens what an attempt of a job has printed. It fails with fs.ErrNotExist where there is
// no such log.
func (c *Client) JobLog(ctx context.Context, group string, job, attempt int) (*JobLog, error) {
	l := &JobLog{ctx: ctx, client: c, path: fmt.Sprintf("/v1/builds/%s/jobs/%d/log?attempt=%d", url.PathEscape(group), job, attempt)}
	var refused *Refusal
	err := l.fetch(0)
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return nil, fmt.Errorf("server %s: %s: %w", c.server, refused.Detail, fs.ErrNotExist)
	}
	return l, err
}

// Size is how many bytes it had when it was opened.
func (l *JobLog) Size() (int64, error) { return l.size, nil }

// Close does nothing: nothing is open between two parts.
func (*JobLog) Close() error { return nil }

// ReadAt implements io.ReaderAt, up to where the log ends by now.
func (l *JobLog) ReadAt(into []byte, offset int64) (n int, err error) {
	for n < len(into) {
		from := offset + int64(n)
		if from < l.at || from >= l.at+int64(len(l.part)) {
			if err := l.fetch(from); err != nil {
				return n, err
			}
			if len(l.part) == 0 {
				return n, io.EOF
			}
		}
		n += copy(into[n:], l.part[from-l.at:])
	}
	return n, nil
}

// fetch gets the part that begins somewhere.
func (l *JobLog) fetch(from int64) error {
	return l.client.uncut(l.ctx, func() error { return l.fetchOnce(from) })
}

func (l *JobLog) fetchOnce(from int64) error {
	ctx, idle, cancel := unlessIdle(l.ctx, l.client.idle)
	defer cancel()
	answer, err := l.client.do(ctx, request{method: http.MethodGet, path: fmt.Sprintf("%s&offset=%d&limit=%d", l.path, from, logPart)})
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // it is read only
	size, err := strconv.ParseInt(answer.Header.Get("Deployster-Log-Size"), 10, 64)
	if err != nil {
		return fmt.Errorf("server %s does not say how long the log is%w", l.client.server, errForeign)
	}
	part, err := io.ReadAll(io.LimitReader(idle.progress(answer.Body), logPart))
	if errors.Is(err, io.ErrUnexpectedEOF) || err == nil && int64(len(part)) < min(logPart, size-from) {
		err = errCut
	}
	if err != nil {
		return fmt.Errorf("server %s: reading the log of a job: %w", l.client.server, err)
	}
	l.size, l.part, l.at = size, part, from
	return nil
}
