package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/internal/objects"
)

// Objects are the contents that the events of a log name by their hash, in the same database.
// It implements objects.Remote.
type Objects struct{ log *Log }

// Objects are those of the log.
func (l *Log) Objects() Objects { return Objects{l} }

// Load implements objects.Remote.
func (o Objects) Load(hash string) (content []byte, err error) {
	key, err := hex.DecodeString(hash)
	if err != nil {
		return nil, err
	}
	var size int64
	err = o.log.ask("SELECT octet_length(content), CASE WHEN octet_length(content) <= $2 THEN content END FROM objects WHERE hash = $1", []any{key, objects.MaxSize}, &size, &content)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, fmt.Errorf("in %s it %w", o.log.where, objects.ErrMissing)
	case err == nil && size > objects.MaxSize:
		return nil, fmt.Errorf("in %s it %w", o.log.where, objects.ErrAltered)
	}
	return content, err
}

// Keep implements objects.Remote. What is there already is as new afterwards as what was not, but
// for an hour, which spares most of the writes.
func (o Objects) Keep(hash string, content []byte) error {
	key, err := hex.DecodeString(hash)
	if err != nil {
		return err
	}
	if content == nil {
		content = []byte{}
	}
	return o.log.put("INSERT INTO objects AS o (hash, content) VALUES ($1, $2) ON CONFLICT (hash) DO UPDATE SET stored = now() WHERE o.stored < now() - interval '1 hour'", key, content)
}

// Salt implements objects.Remote.
func (o Objects) Salt() (salt []byte, err error) {
	err = o.log.ask("SELECT bytes FROM salt", nil, &salt)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("in %s it %w", o.log.where, objects.ErrMissing)
	}
	return salt, err
}

// KeepSalt implements objects.Keeper. Of several at once the first is the one that there is.
func (o Objects) KeepSalt(salt []byte) error {
	return o.log.put("INSERT INTO salt (bytes) VALUES ($1) ON CONFLICT DO NOTHING", salt)
}

// Prune implements objects.Keeper.
func (o Objects) Prune(ctx context.Context, before time.Time, needed func(hash string) bool, dryRun bool) (pruned objects.Pruned, err error) {
	var may bool
	if err := o.log.ask("SELECT has_table_privilege('objects', 'DELETE')", nil, &may); err != nil {
		return pruned, err
	}
	if !may {
		return pruned, objects.ErrOwner
	}
	age := o.log.now().Sub(before)
	old, err := o.log.old(ctx, "SELECT encode(hash, 'hex'), octet_length(content), stored FROM objects WHERE stored < now() - $1::interval", age)
	if err != nil {
		return pruned, err
	}
	for _, one := range old {
		if needed(one.name) {
			continue
		}
		if !dryRun {
			// It may have been stored again since.
			removed, err := o.log.change(ctx, "DELETE FROM objects WHERE hash = decode($1, 'hex') AND stored < now() - $2::interval", one.name, age)
			if err != nil {
				return pruned, err
			}
			if removed == 0 {
				continue
			}
		}
		pruned.Count, pruned.Bytes = pruned.Count+1, pruned.Bytes+one.size
		if pruned.Oldest.IsZero() || one.stored.Before(pruned.Oldest) {
			pruned.Oldest = one.stored
		}
	}
	return pruned, nil
}
