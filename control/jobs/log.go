package jobs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/regularfile"
)

// maxLog is how many bytes of a log are kept, half of them of its beginning.
const maxLog = 16 << 20

// MaxLog is the size beyond which the file of a log has had its middle left out.
const MaxLog = maxLog

// Omission is what is in a log in the place of its middle: how many bytes that has.
const Omission = "\n[%d bytes are left out here]\n"

// LeftOut returns how many bytes are left out of the middle of a log whose file is larger than
// MaxLog, and where in the file its end begins. ok is false where the file does not say that.
func LeftOut(file io.ReaderAt) (bytes, end int64, ok bool) {
	text := make([]byte, len(Omission)+20)
	n, err := file.ReadAt(text, maxLog/2)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, false
	}
	if _, err := fmt.Sscanf(string(text[:n]), Omission, &bytes); err != nil || bytes < 1 {
		return 0, 0, false
	}
	return bytes, maxLog/2 + int64(len(fmt.Sprintf(Omission, bytes))), true
}

// logFile keeps the log of a job. While that is being written, the file has its beginning; when
// it is closed, another one takes its place that has the end as well, and between them how much is
// left out. So whoever reads it along sees either, and knows what of it he has seen. A failure to
// write it, as of a disk that is full, is told at the end: the job goes on, and there may be room
// again for the last that it printed.
type logFile struct {
	file *os.File
	half int64
	size int64    // of all that was written to the log
	last *os.File // of what follows the first half: its end, as a ring; nil before there is any
	err  error

	written int64  // bytes of the beginning that the file has
	unsaved []byte // the end of what was printed since it could not be written
}

// maxUnsaved is how much of a log is kept in memory while it cannot be written.
const maxUnsaved = 64 << 10

// unwritten is in a log in the place of what could not be written.
const unwritten = "\n[%d bytes could not be written here]\n"

// shortName ends the name of a log while it is shortened.
const shortName = ".short"

// createLog makes the log of an attempt, in the place of one that is there.
func createLog(path string) (*logFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &logFile{file: file, half: maxLog / 2}, nil
}

// Write implements io.Writer. It never fails.
func (l *logFile) Write(p []byte) (int, error) {
	if room := 2*l.half - l.size; room > 0 && l.err == nil {
		var n int
		n, l.err = l.file.Write(p[:min(room, int64(len(p)))])
		l.written += int64(n)
	}
	if rest := p[min(int64(len(p)), max(0, l.half-l.size)):]; len(rest) > 0 && l.err == nil {
		l.err = l.keepLast(rest, max(0, l.size-l.half))
	}
	if l.err != nil {
		l.keepUnsaved(p[min(int64(len(p)), max(0, l.written-l.size)):])
	}
	l.size += int64(len(p))
	return len(p), nil
}

// keepUnsaved keeps the end of what cannot be written, and as much again, so that little is moved.
func (l *logFile) keepUnsaved(p []byte) {
	l.unsaved = append(l.unsaved, p[max(0, len(p)-maxUnsaved):]...)
	if over := len(l.unsaved) - maxUnsaved; over > maxUnsaved {
		l.unsaved = append(l.unsaved[:0], l.unsaved[over:]...)
	}
}

// complete ends a file that could not be written any more with the last that was printed, and
// before that with how much is missing.
func (l *logFile) complete() error {
	text := l.unsaved[max(0, len(l.unsaved)-maxUnsaved):]
	kept := min(l.written, 2*l.half-int64(len(text)+len(unwritten)+20))
	if missing := l.size - kept - int64(len(text)); missing > 0 {
		text = append(fmt.Appendf(nil, unwritten, missing), text...)
	}
	if err := l.file.Truncate(kept); err != nil {
		return err
	}
	_, err := l.file.WriteAt(text, kept)
	return err
}

// keepLast writes to the ring what is so far behind the first half. That is a file without a
// name: a job that prints much takes no memory by it.
func (l *logFile) keepLast(p []byte, at int64) error {
	if l.last == nil {
		file, err := os.CreateTemp(filepath.Dir(l.file.Name()), "."+filepath.Base(l.file.Name())+"-*")
		if err != nil {
			return err
		}
		if err := os.Remove(file.Name()); err != nil {
			return errors.Join(err, file.Close())
		}
		l.last = file
	}
	if skip := int64(len(p)) - l.half; skip > 0 {
		p, at = p[skip:], at+skip
	}
	for len(p) > 0 {
		at %= l.half
		n := min(int64(len(p)), l.half-at)
		if _, err := l.last.WriteAt(p[:n], at); err != nil {
			return err
		}
		p, at = p[n:], at+n
	}
	return nil
}

// close completes the file.
func (l *logFile) close() error {
	switch {
	case l.err != nil:
		l.err = errors.Join(l.err, l.complete())
	case l.size > 2*l.half:
		if l.err = l.shorten(); engine.Full(l.err) {
			l.err = l.shortenHere() // its end is worth more than who reads it along
		}
	}
	if l.last != nil {
		l.err = errors.Join(l.err, l.last.Close())
	}
	return errors.Join(l.err, l.file.Close())
}

// shorten replaces the file with one that has the end of the log after its first half.
func (l *logFile) shorten() (err error) {
	path := l.file.Name()
	if err := os.Remove(path + shortName); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed
		return err
	}
	short, err := os.OpenFile(path+shortName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, short.Close()); err == nil {
			err = os.Rename(short.Name(), path)
		}
		if err != nil {
			_ = os.Remove(short.Name())
		}
	}()
	_, err = io.Copy(short, io.MultiReader(io.NewSectionReader(l.file, 0, l.half), l.end()))
	return err
}

// shortenHere makes the file itself the one that shorten makes, which takes no more room. Who
// reads it along may miss some of its middle.
func (l *logFile) shortenHere() error {
	if err := l.file.Truncate(l.half); err != nil {
		return err
	}
	_, err := io.Copy(io.NewOffsetWriter(l.file, l.half), l.end())
	return err
}

// end is what follows the first half of a log that was shortened.
func (l *logFile) end() io.Reader {
	oldest := (l.size - l.half) % l.half
	return io.MultiReader(strings.NewReader(fmt.Sprintf(Omission, l.size-2*l.half)),
		io.NewSectionReader(l.last, oldest, l.half-oldest), io.NewSectionReader(l.last, 0, oldest))
}

const (
	outputLines = 20      // of the end of a log that go into the event of a failure
	outputLine  = 4 << 10 // bytes that each of them keeps
)

// lastLines returns the last lines of a log.
func lastLines(path string) []string {
	file, info, err := regularfile.OpenNoLink(path)
	if err != nil {
		return nil
	}
	defer file.Close() //nolint:errcheck // opened for reading
	from := max(0, info.Size()-outputLines*outputLine)
	text, err := io.ReadAll(io.NewSectionReader(file, from, info.Size()-from))
	if err != nil {
		return nil
	}
	lines := strings.Split(strings.TrimRight(string(text), "\r\n"), "\n")
	if from > 0 && len(lines) > 1 {
		lines = lines[1:] // it began before
	}
	lines = lines[max(0, len(lines)-outputLines):]
	for i, line := range lines {
		if line = strings.TrimSuffix(line, "\r"); len(line) > outputLine {
			line = line[:outputLine] + "…"
		}
		lines[i] = strings.ToValidUTF8(line, "�")
	}
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines
}
