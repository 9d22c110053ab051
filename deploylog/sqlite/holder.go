package sqlite

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/deploylog/turn"
)

// holder is a process that has a lock.
type holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host,omitempty"`
	Command string    `json:"command,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// maxRecord is how much of the file of a lock is read: what is in it others may have written.
const maxRecord = 1 << 10

// self is this process as a holder.
func self(now time.Time) holder {
	host, _ := os.Hostname()
	return holder{os.Getpid(), host, turn.Command(os.Args), now.UTC().Truncate(time.Second)}
}

// record is a holder as it stands in the file of a lock: its process in the first line.
func (h holder) record() []byte {
	text, err := json.Marshal(h)
	if err != nil {
		return nil // it has no such values
	}
	return fmt.Appendf(nil, "%d\n%s\n", h.PID, text)
}

// readRecord reads who has the lock of a file as it says itself; ok is false where it says nothing.
func readRecord(f *os.File) (h holder, ok bool) {
	b := make([]byte, maxRecord)
	n, _ := f.ReadAt(b, 0)
	first, rest, _ := strings.Cut(string(b[:n]), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return holder{}, false
	}
	if json.Unmarshal([]byte(rest), &h) != nil || h.PID != pid {
		h = holder{PID: pid}
	}
	return h, true
}

// String says who holds a lock, and whether that goes on. Of a process on another machine only
// what it wrote down is known.
func (h holder) String() string {
	here, _ := os.Hostname()
	local := h.Host == "" || h.Host == here
	if local && h.Command == "" {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", h.PID)); err == nil {
			h.Command = turn.Command(strings.Split(strings.TrimRight(string(line), "\x00"), "\x00"))
		}
	}
	text := fmt.Sprintf("process %d", h.PID)
	if h.Command != "" {
		text += fmt.Sprintf(" (%.100s)", printable(h.Command))
	}
	if host := h.Host; host != "" || here != "" {
		if host == "" {
			host = here
		}
		text += fmt.Sprintf(" on %.64s", printable(host))
	}
	if !h.Since.IsZero() {
		text += " since " + h.Since.Local().Format("2006-01-02 15:04:05")
	}
	if local {
		text += stateOf(h.PID)
	}
	return text
}

// printable is a text of others without what controls a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// stateOf says whether a process of this machine goes on; "" is not known.
func stateOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), '(')+1:]), ") ")
	switch state, _, _ := strings.Cut(rest, " "); state {
	case "T":
		return fmt.Sprintf(", which is stopped: fg or kill -CONT %d lets it go on, kill -KILL %d ends it", pid, pid)
	case "t":
		return ", which a debugger has stopped"
	case "":
		return ""
	default:
		return ", which is alive"
	}
}

// kernelHolder asks the kernel which process has a lock of a file, or of one of its bytes; ok is
// false where it does not say, as of processes in other containers. A byte of -1 is a flock.
func kernelHolder(path string, at int64) (h holder, ok bool) {
	info, err := os.Stat(path)
	if err != nil {
		return holder{}, false
	}
	stat, is := info.Sys().(*syscall.Stat_t)
	locks, err := os.Open("/proc/locks")
	if err != nil || !is {
		return holder{}, false
	}
	defer locks.Close() //nolint:errcheck // opened for reading
	inode := ":" + strconv.FormatUint(stat.Ino, 10)
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		// 1: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF
		fields := strings.Fields(lines.Text())
		if len(fields) < 8 || slices.Contains(fields, "->") || fields[3] != "WRITE" || !strings.HasSuffix(fields[5], inode) || (fields[1] == "FLOCK") != (at < 0) {
			continue
		}
		if at >= 0 && !covers(fields[6], fields[7], at) {
			continue
		}
		if pid, err := strconv.Atoi(fields[4]); err == nil && pid > 0 && pid != os.Getpid() {
			return holder{PID: pid}, true
		}
	}
	return holder{}, false
}

// covers reports whether a lock from one byte to another, which may be EOF, is of a byte.
func covers(from, to string, at int64) bool {
	first, err := strconv.ParseInt(from, 10, 64)
	last, ends := strconv.ParseInt(to, 10, 64)
	return err == nil && first <= at && (ends != nil || last >= at)
}
