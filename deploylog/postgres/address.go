package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/internal/pattern"
)

// address is where a log is.
type address struct {
	config *pgx.ConnConfig
	schema string
}

// IsAddress reports whether a text names a log in a database.
func IsAddress(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// meant is what only somebody writes who means a database.
var meant = pattern.Lazy(`(?i)^postgres(ql)?(:|//)|(password|dbname)\s*=`)

// IsFile fails for a name of a log that is no address and was meant for one, as a text of libpq
// that is no URL. An error never shows it: it may have a password.
func IsFile(name string) error {
	if meant().MatchString(name) {
		return errors.New("this names no file, and a database only where it is a URL: " + form)
	}
	return nil
}

// String is the address for people: without a password.
func (a address) String() string {
	hosts := []string{}
	sockets := url.Values{}
	add := func(host string, port uint16) {
		at := net.JoinHostPort(host, strconv.Itoa(int(port)))
		if strings.HasPrefix(host, "/") { // the directory of a socket
			sockets.Set("host", host)
		} else if !slices.Contains(hosts, at) { // with and without TLS it is one
			hosts = append(hosts, at)
		}
	}
	add(a.config.Host, a.config.Port)
	for _, other := range a.config.Fallbacks {
		add(other.Host, other.Port)
	}
	sockets.Set("schema", a.schema)
	u := url.URL{Scheme: "postgres", Host: strings.Join(hosts, ","), Path: "/" + a.config.Database, RawQuery: sockets.Encode()}
	if text, err := url.PathUnescape(u.String()); err == nil {
		return text
	}
	return u.String()
}

func (a address) schemaName() string { return pgx.Identifier{a.schema}.Sanitize() }
func (a address) user() string       { return pgx.Identifier{a.config.User}.Sanitize() }

// Name is the log of a URL for people: without a password.
func Name(url string) (string, error) {
	where, err := parse(url)
	if err != nil {
		return "", err
	}
	return where.String(), nil
}

const (
	defaultSchema = "deployster"
	form          = "postgres://USER@HOST:PORT/DATABASE?schema=NAME"
)

// parse reads the URL of a log. An error never shows it: it may have a password.
func parse(text string) (address, error) {
	u, err := url.Parse(text)
	if err != nil {
		return address{}, errors.New("the URL of the database cannot be read; its form is " + form + ", and what is special in a password is escaped with %")
	}
	if !IsAddress(text) {
		return address{}, fmt.Errorf("the URL of a database is %s, not one of %q", form, u.Scheme)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return address{}, errors.New("the parameters of the URL of the database cannot be read: they are NAME=VALUE, with & between them, and what is special is escaped with %")
	}
	schema := defaultSchema
	if names := query["schema"]; len(names) > 0 {
		schema = names[0]
	}
	query.Del("schema")
	const longest = 63 // bytes of a name in PostgreSQL, which would cut it
	if schema == "" || len(schema) > longest || strings.HasPrefix(schema, "pg_") || strings.HasPrefix(schema, "$") || schema == "information_schema" || strings.ContainsAny(schema, "\x00\",") {
		return address{}, fmt.Errorf("schema=%s: the name of a schema has 1 to %d bytes, no quotes and commas, is not information_schema, and does not begin with pg_ or $", schema, longest)
	}
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // what is behind it takes a + for one
	c, err := pgx.ParseConfig(u.String())
	if err != nil {
		return address{}, fmt.Errorf("the URL of the database: %s", withoutURL(err))
	}
	for name, value := range map[string]string{
		"client_encoding":                     "UTF8",
		"default_transaction_isolation":       "read committed",
		"idle_in_transaction_session_timeout": "60s",
		// A machine that is gone is known to be in half a minute: its locks are free then.
		"tcp_keepalives_idle": "15", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3",
	} {
		c.RuntimeParams[name] = value
	}
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, connectTime)
	c.DialFunc = dialer(c.ConnectTimeout).DialContext
	c.RuntimeParams["search_path"] = pgx.Identifier{schema}.Sanitize()
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = applicationName()
	}
	return address{config: c, schema: schema}, nil
}

// withoutURL is an error about a URL, without that.
func withoutURL(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		return inner.Error()
	}
	return "it is not valid"
}
