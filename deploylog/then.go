package deploylog

import "context"

// ThenAppender is a Log that appends events together with what is decided from them: whoever reads
// it finds both or neither, also after a crash, and they cost one write to the disk.
type ThenAppender interface {
	// AppendThen appends events as Append does, and right after them what then returns. then is called
	// once the events have their places, and not where they are refused; and again once what it returned
	// has its places, until it returns nothing. It is given all events that nobody can read yet, in order:
	// those of others, and last these. Whoever appends waits for it, so it must not take long, and must not
	// append itself.
	//
	// Where what then returns is refused, what is before that is appended without it, and returned with
	// an error. Where none are returned, none were appended. No events are nothing to do.
	AppendThen(ctx context.Context, events []Event, then func(unread []Event) []Event) ([]Event, error)
}
