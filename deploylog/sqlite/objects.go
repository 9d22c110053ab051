package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
)

// checkSchema fails where the file does not consist of just what a new log
// consists of. Without its triggers events can be changed by mistake, and one
// that somebody added may change them on the way in.
func checkSchema(ctx context.Context, db *sql.DB) (err error) {
	empty, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, empty.Close()) }()
	empty.SetMaxOpenConns(1) // each connection has a memory of its own
	if _, err := empty.ExecContext(ctx, schema); err != nil {
		return err
	}
	want, err := objects(ctx, empty)
	if err != nil {
		return err
	}
	have, err := objects(ctx, db)
	if err != nil {
		return err
	}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch definition, ok := have[name]; {
		case !ok:
			problems = append(problems, fmt.Sprintf("the %s is missing", name))
		case definition != want[name]:
			problems = append(problems, fmt.Sprintf("the %s is not the one of a deployment log", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, ok := want[name]; !ok {
			problems = append(problems, fmt.Sprintf("the %s does not belong to a deployment log", name))
		}
	}
	if len(problems) > 0 {
		return &foreignError{strings.Join(problems, "; ")}
	}
	return nil
}

// objects returns the definitions of a database's tables, indexes, triggers and
// views by kind and name. Statistics that SQLite made for itself are left out.
func objects(ctx context.Context, db *sql.DB) (found map[string]string, err error) {
	rows, err := db.QueryContext(ctx, "SELECT type, name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat_'")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	found = map[string]string{}
	for rows.Next() {
		var kind, name, definition string
		if err := rows.Scan(&kind, &name, &definition); err != nil {
			return nil, err
		}
		found[kind+" "+name] = strings.Join(strings.Fields(definition), " ")
	}
	return found, rows.Err()
}

// foreignError says that somebody changed what the file consists of. The events
// have been checked by then.
type foreignError struct{ text string }

func (e *foreignError) Error() string {
	return "its events are sound, but somebody changed what protects them: " + e.text
}

// Is makes it a case of deploylog.ErrCorrupt.
func (e *foreignError) Is(target error) bool { return target == deploylog.ErrCorrupt }
