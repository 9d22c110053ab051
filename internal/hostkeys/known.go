package hostkeys

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the form of hashed names is ssh's
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/internal/filelock"
)

// Entry is a line of a file of known hosts.
type Entry struct {
	Key
	File string
	Line int

	marker string // "CA", "REVOKED" or ""
}

// lookUp finds the entries of a name in files, of which some need not exist.
func lookUp(ctx context.Context, name string, files []string) (all []Entry, err error) {
	for _, file := range files {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("look for %s: %w", name, err)
		}
		out, err := run(ctx, "ssh-keygen", "-F", name, "-f", file)
		if ctx.Err() != nil {
			return nil, err
		}
		if out == "" {
			continue // it fails if there is none
		}
		at := Entry{File: file}
		for line := range strings.Lines(out) {
			line = strings.TrimSpace(line)
			if _, place, is := strings.Cut(line, " found: line "); is && strings.HasPrefix(line, "# Host ") {
				number, marker, _ := strings.Cut(place, " ")
				at.Line, _ = strconv.Atoi(number)
				at.marker = strings.TrimSpace(marker)
				continue
			}
			if strings.HasPrefix(line, "@") {
				_, line, _ = strings.Cut(line, " ")
			}
			if key, err := parseKey(line); err == nil {
				entry := at
				entry.Key = key
				all = append(all, entry)
			}
		}
	}
	return all, nil
}

// otherTypes returns the algorithms for keys of the known types, as HostKeyAlgorithms of ssh; "" if a
// key of the type is known, or none at all.
func otherTypes(known []Entry, have string) string {
	var types []string
	for _, e := range known {
		switch {
		case e.marker != "":
		case e.Type == have:
			return ""
		case e.Type == "ssh-rsa":
			types = append(types, "rsa-sha2-512", "rsa-sha2-256")
		default:
			types = append(types, e.Type)
		}
	}
	return strings.Join(types, ",")
}

// compare finds out what is known of the key of a server.
func (s *Server) compare(known []Entry) error {
	s.Status = New
	isSame := func(e Entry) bool { return e.Type == s.Key.Type && e.encoded == s.Key.encoded }
	for _, e := range known { // wherever it stands
		if e.marker == "REVOKED" && isSame(e) {
			return fmt.Errorf("%s has the key %s, which %s:%d revokes", s.Destination, s.Key.Fingerprint, e.File, e.Line)
		}
	}
	for _, e := range known {
		switch same := isSame(e); {
		case e.marker == "REVOKED":
		case e.marker == "CA": // which vouches for certificates, and not for keys
		case same:
			s.Status, s.Before = Known, e
			return nil
		default:
			s.Status, s.Before = Changed, e
		}
	}
	return nil
}

// authority returns the entry of an authority for certificates, if there is one.
func authority(known []Entry) (Entry, bool) {
	i := slices.IndexFunc(known, func(e Entry) bool { return e.marker == "CA" })
	if i < 0 {
		return Entry{}, false
	}
	return known[i], true
}

// Add adds the keys of servers to the file of each, unless they are there. A file has all of its new
// lines or none of them, and is for its owner alone if it is made here.
func Add(ctx context.Context, servers []Server, random io.Reader) error {
	files := map[string][]Server{}
	for _, s := range servers {
		files[s.File] = append(files[s.File], s)
	}
	var errs []error
	for file, servers := range files {
		if err := addTo(ctx, file, servers, random); err != nil {
			errs = append(errs, fmt.Errorf("add host keys to %s: %w", file, err))
		}
	}
	return errors.Join(errs...)
}

// line returns the line of known hosts for the key of a server.
func (s Server) line(random io.Reader) (string, error) {
	name := s.Key.Name
	if s.hash {
		var err error
		if name, err = hashed(name, random); err != nil {
			return "", err
		}
	}
	return name + " " + s.Key.Type + " " + s.Key.encoded + "\n", nil
}

// hashed returns a name as ssh hides it: |1|SALT|HASH.
func hashed(name string, random io.Reader) (string, error) {
	salt := make([]byte, sha1.Size)
	if _, err := io.ReadFull(random, salt); err != nil {
		return "", fmt.Errorf("make a salt: %w", err)
	}
	sum := hmac.New(sha1.New, salt)
	sum.Write([]byte(name))
	encode := base64.StdEncoding.EncodeToString
	return "|1|" + encode(salt) + "|" + encode(sum.Sum(nil)), nil
}

// mostReplaced is how often a file may be replaced while keys are added to it.
const mostReplaced = 5

// addTo adds the keys of servers to a file. It starts over if another program, such as ssh-keygen -R or an
// editor, has put a new file in its place meanwhile.
func addTo(ctx context.Context, file string, servers []Server, random io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	for range mostReplaced {
		if replaced, err := tryToAdd(ctx, file, servers, random); err != nil || !replaced {
			return err
		}
	}
	return errors.New("other programs keep replacing it: try again")
}

// tryToAdd adds the keys of servers to a file, with the lock of it, and reports whether the file was replaced
// meanwhile. Like ssh, which takes no lock, it writes only at the end.
func tryToAdd(ctx context.Context, file string, servers []Server, random io.Reader) (replaced bool, err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, err
	}
	if err := f.Close(); err != nil {
		return false, err
	}
	path, err := filepath.EvalSymlinks(file) // the lock is that of what a link leads to
	if err != nil {
		return gone(err)
	}
	lock, err := filelock.Acquire(ctx, path, filelock.Exclusive)
	if err != nil {
		return gone(err)
	}
	defer lock.Release()
	text, err := missing(ctx, file, servers, random)
	if err != nil || text == "" {
		return false, err
	}
	if f, err = os.OpenFile(file, os.O_RDWR|os.O_APPEND, 0); err != nil {
		return gone(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := appendTo(f, text); err != nil {
		return false, err
	}
	wrote, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(file)
	if err != nil {
		return gone(err)
	}
	return !os.SameFile(wrote, there), nil
}

// gone reports whether an error says that a file was removed, which is none then.
func gone(err error) (bool, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// missing returns the lines for the servers whose keys a file lacks.
func missing(ctx context.Context, file string, servers []Server, random io.Reader) (string, error) {
	var text strings.Builder
	for _, s := range servers {
		known, err := lookUp(ctx, s.Key.Name, []string{file})
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(known, func(e Entry) bool { return e.marker == "" && e.encoded == s.Key.encoded }) {
			continue // added since it was read
		}
		line, err := s.line(random)
		if err != nil {
			return "", err
		}
		text.WriteString(line)
	}
	return text.String(), nil
}

// appendTo adds lines to the end of a file, which may lack the end of its last line.
func appendTo(f *os.File, text string) error {
	info, err := f.Stat()
	if err != nil || text == "" {
		return err
	}
	size := info.Size()
	if size > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			text = "\n" + text
		}
	}
	if n, err := f.WriteString(text); err != nil {
		if info, e := f.Stat(); e == nil && n > 0 && info.Size() == size+int64(n) { // no other has written meanwhile
			err = errors.Join(err, f.Truncate(size))
		}
		return err
	}
	return f.Sync()
}
