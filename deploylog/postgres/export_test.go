package postgres

import "time"

// SetPatience has the server wait so long for this process, from its next session on.
func (l *Log) SetPatience(d time.Duration) { l.session.patience = d }

// SetLockTime has the server answer about locks within so long.
func (l *Log) SetLockTime(d time.Duration) {
	l.session.mu.Lock()
	defer l.session.mu.Unlock()
	l.session.lockTime = d
}

// SetAttendPause has the connection by which it has locks be looked at so often, from its next session on.
func (l *Log) SetAttendPause(d time.Duration) { l.session.attendPause = d }
func (l *Log) SetAppendTime(d time.Duration)  { l.session.appendTime = d }
func (l *Log) SetPresumeTime(d time.Duration) { l.writer.presumes = d }

// SetAnswerTime has the server answer appends within so long, beside the time for what it is sent. It is
// called between appends, or while the log decides what follows from events.
func (l *Log) SetAnswerTime(d time.Duration) { l.writer.answerTime = d }

// SetTurnTime has the server wait so long for this process in a transaction, and this process for its
// turn, from its next connection on.
func (l *Log) SetTurnTime(d time.Duration) { l.writer.turnTime = d }
func (l *Log) AppendKey() int64            { return l.key("append") }
