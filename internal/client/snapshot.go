package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/snapshotfile"
)

// maxSnapshot is how long a snapshot may be: of a longer one the log itself is read.
const maxSnapshot = 256 << 20

// Snapshot implements deploylog.SnapshotLog: it is that which the server keeps, if its form has the
// same version. A server is believed in this as it is in what the log says.
func (l *Log) Snapshot(ctx context.Context, name string) (none deploylog.Snapshot, ok bool) {
	ctx, idle, cancel := unlessIdle(ctx, l.idle)
	defer cancel()
	answer, err := l.do(ctx, request{method: http.MethodGet, path: "/v1/log/snapshots/" + url.PathEscape(deploylog.SnapshotKind(name)), query: url.Values{"program": {name}}})
	if err != nil {
		return none, false // where the server cannot be read, reading the log says why
	}
	defer answer.Body.Close() //nolint:errcheck // it is read only
	text, err := io.ReadAll(io.LimitReader(idle.progress(answer.Body), maxSnapshot+1))
	if err != nil || len(text) > maxSnapshot {
		return none, false
	}
	of, s, ok := snapshotfile.Decode(name, text)
	if !ok || of.Log != l.id {
		return none, false
	}
	return s, true
}

// KeepSnapshot implements deploylog.SnapshotLog: it refuses. A server makes its own.
func (l *Log) KeepSnapshot(context.Context, string, deploylog.Snapshot) error {
	return l.remote("keeping a snapshot beside")
}

// PruneSnapshots implements deploylog.SnapshotLog: it refuses.
func (l *Log) PruneSnapshots(time.Time, bool) (deploylog.Pruned, error) {
	return deploylog.Pruned{}, l.remote("removing snapshots of")
}

var _ deploylog.SnapshotLog = (*Log)(nil)
