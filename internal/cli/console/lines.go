package console

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
)

// mostLine is how many bytes an expression may have.
const mostLine = 64 << 10

// errTooLong says that a line has more.
var errTooLong = fmt.Errorf("the line is longer than %d KiB; put what it says into a variable", mostLine>>10)

// lines are those that somebody types or a script sends.
type lines struct {
	in  *bufio.Reader
	ask func() // before each line
}

func newLines(in io.Reader) *lines {
	return &lines{in: bufio.NewReaderSize(in, mostLine), ask: func() {}}
}

// next returns the next line, without its end. At the end it fails with io.EOF; one that is
// too long fails with errTooLong, and is passed over.
func (l *lines) next() (string, error) {
	l.ask()
	text, err := l.in.ReadSlice('\n')
	long := false
	for errors.Is(err, bufio.ErrBufferFull) {
		long = true
		_, err = l.in.ReadSlice('\n')
	}
	switch {
	case err != nil && err != io.EOF:
		return "", fmt.Errorf("reading a line: %w", err)
	case long:
		return "", errTooLong
	case err == io.EOF && len(text) == 0:
		return "", io.EOF
	case err == nil:
		text = text[:len(text)-1]
	}
	return string(text), nil
}

// prompt asks for each line on a terminal, until the end. Who interrupts a line, which the
// terminal forgets then, is asked again.
func (l *lines) prompt(out *os.File) (end func()) {
	var mu sync.Mutex
	say := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(out, text) // the value that follows says it when nobody reads
	}
	say("Expressions, one a line. Ctrl-D ends.\n")
	l.ask = func() { say("> ") }
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range interrupts {
			say("\n> ")
		}
	}()
	return func() {
		signal.Stop(interrupts)
		close(interrupts)
		<-done
		say("\n")
	}
}
