package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/regularfile"
)

// The bounds of what a job may say of what it made.
const (
	maxMetadata     = 64 << 10 // bytes
	maxMetadataKeys = 100
)

var metadataKey = pattern.Lazy(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// readMetadata reads the file in which a job says something of what it made. An error says
// what is wrong with it. Secrets are masked before anything is made of the text: a key, or a
// message that quotes one, may be a part of a secret that is not recognized any more. What is
// masked is no key.
func readMetadata(path string, mask func(string) string) (map[string]string, error) {
	file, _, err := regularfile.OpenNoLink(path)
	var failed *fs.PathError
	if errors.As(err, &failed) {
		err = failed.Err // where it is on this machine is of no use to whoever wrote the job
	}
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened for reading
	text, err := io.ReadAll(io.LimitReader(file, maxMetadata+1))
	if err != nil {
		return nil, err
	}
	if len(text) <= maxMetadata {
		text = []byte(mask(string(text)))
	}
	return parseMetadata(text)
}

// parseMetadata reads lines KEY=VALUE.
func parseMetadata(text []byte) (map[string]string, error) {
	switch {
	case len(text) > maxMetadata:
		return nil, fmt.Errorf("it has more than %d bytes: put what is long into a file of the artifact", maxMetadata)
	case !utf8.Valid(text):
		line := 1 + bytes.Count(text[:len(text)-len(firstInvalid(text))], []byte("\n"))
		return nil, fmt.Errorf("line %d is not UTF-8", line)
	}
	var all map[string]string
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		key, value, found := strings.Cut(line, "=")
		_, twice := all[key]
		switch {
		case !found:
			return nil, fmt.Errorf("line %d has no =: each is to be KEY=VALUE", number)
		case !metadataKey().MatchString(key):
			return nil, fmt.Errorf("line %d: %.80q is no key: one has letters, digits, _, . and -, begins with a letter or _, and has at most 64", number, key)
		case twice:
			return nil, fmt.Errorf("line %d: the key %s is there twice", number, key)
		case len(all) == maxMetadataKeys:
			return nil, fmt.Errorf("it has more than %d keys", maxMetadataKeys)
		case strings.ContainsFunc(value, func(c rune) bool { return unicode.IsControl(c) && c != '\t' }):
			return nil, fmt.Errorf("line %d: the value of %s has control characters", number, key)
		}
		if all == nil {
			all = map[string]string{}
		}
		all[key] = value
	}
	return all, nil
}

// firstInvalid is a text from where it is not UTF-8 any more.
func firstInvalid(text []byte) []byte {
	for len(text) > 0 {
		c, size := utf8.DecodeRune(text)
		if c == utf8.RuneError && size == 1 {
			return text
		}
		text = text[size:]
	}
	return text
}
