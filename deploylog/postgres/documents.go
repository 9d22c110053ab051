package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/internal/protected"
)

// Documents are those with secrets to which the events of a log refer, in the same database, where
// whoever may read events need not be able to read them. It implements protected.Remote.
type Documents struct{ log *Log }

// Documents are those of the log.
func (l *Log) Documents() Documents { return Documents{l} }

// Load implements protected.Remote.
func (d Documents) Load(name string) (content []byte, err error) {
	var size int64
	err = d.log.ask("SELECT octet_length(content), CASE WHEN octet_length(content) <= $2 THEN content END FROM protected WHERE name = $1", []any{name, protected.MaxSize}, &size, &content)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, fs.ErrNotExist
	case err == nil && size > protected.MaxSize:
		return nil, fmt.Errorf("it has %d bytes; at most %d are read", size, protected.MaxSize)
	}
	return content, unplaced(err)
}

// Keep implements protected.Remote.
func (d Documents) Keep(name string, content []byte) error {
	return unplaced(d.log.put("INSERT INTO protected (name, content) VALUES ($1, $2) ON CONFLICT DO NOTHING", name, content))
}

// Remove implements protected.Remote.
func (d Documents) Remove(name string) error {
	return unplaced(d.log.put("DELETE FROM protected WHERE name = $1", name))
}

// Old implements protected.Remote.
func (d Documents) Old(before time.Time) (all []protected.Kept, err error) {
	old, err := d.log.old(context.Background(), "SELECT name, octet_length(content), stored FROM protected WHERE stored < now() - $1::interval", d.log.now().Sub(before))
	for _, k := range old {
		all = append(all, protected.Kept{Name: k.name, Size: k.size, Stored: k.stored})
	}
	return all, err
}

// String implements protected.Remote.
func (d Documents) String() string { return d.log.String() }
