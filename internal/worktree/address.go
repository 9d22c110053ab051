package worktree

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/deployster-go/deployster/internal/pattern"
)

const maxAddress = 1000 // bytes

var (
	// likeSCP is HOST:PATH, perhaps with a user, which Git takes for SSH.
	likeSCP   = pattern.Lazy(`^(?:[^/:]*@)?([A-Za-z0-9][A-Za-z0-9.-]*):([^/:].*|/.*)$`)
	validHost = pattern.Lazy(`^([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)
)

// Address is a URL of a repository that may be shown: without user, password, query and fragment.
// It is "" of what only this machine knows, and of what is none.
func Address(text string) string {
	if len(text) > maxAddress || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r == '\\' }) {
		return ""
	}
	if !strings.Contains(text, "://") {
		parts := likeSCP().FindStringSubmatch(text)
		if parts == nil {
			return ""
		}
		text = "ssh://" + parts[1] + "/" + strings.TrimPrefix(parts[2], "/")
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || !validHost().MatchString(u.Host) {
		return ""
	}
	switch u.Scheme {
	case "https", "http", "ssh", "git":
	default:
		return ""
	}
	if strings.Contains(u.Path, "@") { // such as the credentials of an address within the address
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
