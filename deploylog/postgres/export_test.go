package postgres

import "time"

// SetPatience has the server wait so long for this process, from its next session on.
func (l *Log) SetPatience(d time.Duration) { l.session.patience = d }
