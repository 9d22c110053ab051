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
	"syscall"

	"github.com/deployster-go/deployster/internal/atomicfile"
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
		case e.marker == "CA":
			if s.Status == New {
				s.Status, s.Before = Known, e // ssh compares the certificate itself
			}
		case same:
			s.Status, s.Before = Known, e
			return nil
		default:
			s.Status, s.Before = Changed, e
		}
	}
	return nil
}

// Add adds the keys of servers to the file of each. A file has all of its lines or none of them, and
// belongs to its owner only if it is made here.
func Add(servers []Server, random io.Reader) error {
	lines := map[string]string{}
	for _, s := range servers {
		name := s.Key.Name
		if s.hash {
			var err error
			if name, err = hashed(name, random); err != nil {
				return err
			}
		}
		lines[s.File] += name + " " + s.Key.Type + " " + s.Key.encoded + "\n"
	}
	var errs []error
	for file, text := range lines {
		if err := appendTo(file, text); err != nil {
			errs = append(errs, fmt.Errorf("add host keys to %s: %w", file, err))
		}
	}
	return errors.Join(errs...)
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

// appendTo replaces a file by one that has a text more at its end.
func appendTo(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if to, err := filepath.EvalSymlinks(file); err == nil { // the link stays
		file = to
	}
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, err := os.Stat(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if n := len(before); n > 0 && before[n-1] != '\n' {
		before = append(before, '\n')
	}
	f, err := atomicfile.Create(file)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(slices.Concat(before, []byte(text))); err != nil {
		return err
	}
	if info != nil {
		if err := f.Chmod(info.Mode().Perm()); err != nil {
			return err
		}
		if was, ok := info.Sys().(*syscall.Stat_t); ok && int(was.Uid) != os.Geteuid() {
			if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil {
				return err
			}
		}
	}
	return f.Commit()
}
