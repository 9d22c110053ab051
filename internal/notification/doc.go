// Package notification tells people and programs what happens in the log: that something waits
// for approval, has failed, is stuck, has finished, has drifted or is held.
//
// A rule says what is told of what to whom. Each rule has a cursor in the log: how far it has
// got is an event itself, so that what happens while nobody runs is told later, and what was told
// is told again only where a process died between the telling and the event. Receivers know such
// a repetition by its id, which is that of the event that is told.
//
// Notifications drive nothing. What cannot be told in several tries is put aside, the log
// says so, and somebody may have it told again.
package notification
