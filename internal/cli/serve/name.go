package serve

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/deployster-go/deployster/internal/cli/exit"
)

// readName finds out what other servers know this one as. That is to last: from the names of all
// follows which of them controls what, so one that came back with another name would have other
// pipelines and environments than before, of which each changed hands for nothing.
func (o *options) readName(hostname func() (string, error)) error {
	const most = 200
	switch {
	case utf8.RuneCountInString(o.name) > most, strings.ContainsFunc(o.name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return exit.Usage("--name: at most %d letters, digits and other characters that can be printed", most)
	case o.name != "":
		return nil
	}
	host, err := hostname()
	if err != nil {
		host = "server"
	}
	o.name = strings.Join(append([]string{host}, append(o.listen, o.sockets...)...), " ")
	return nil
}
