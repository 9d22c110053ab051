// Package view turns what happens in a run into what a person or a program
// reads: a live tree on a terminal, one line per event elsewhere, or NDJSON.
//
// All three receive the same events (runner.Observer). Live and Plain fold
// them into a board, which knows at each moment what every resource is doing;
// what differs is only when and how it is written down. A frame of the live
// tree is a pure function of the board, the time and the size of the terminal,
// so it can be tested without one.
//
// Whatever comes from a manifest or a container is untrusted: it passes clean
// before it reaches a terminal, so that no output of a container can move the
// cursor, change colours or titles, or reverse the direction of text.
package view

import "io"

// ColorWanted reports whether output may be coloured: never when NO_COLOR is set
// to something (no-color.org), always when CLICOLOR_FORCE is, else on a
// terminal that is not "dumb".
func ColorWanted(terminal bool, getenv func(string) string) bool {
	if getenv("NO_COLOR") != "" {
		return false
	}
	if force := getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true
	}
	return terminal && getenv("TERM") != "dumb"
}

// output writes until the first error, which it keeps: an observer cannot
// fail, and a reader that went away must not end a run.
type output struct {
	w   io.Writer
	err error
}

func (o *output) write(text string) {
	if o.err != nil || text == "" {
		return
	}
	_, o.err = io.WriteString(o.w, text)
}

// Write makes an output an io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.write(string(p))
	if o.err != nil {
		return 0, o.err
	}
	return len(p), nil
}
