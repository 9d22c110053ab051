package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// statement is a prepared statement of the writer's connection. The writer
// talks to the driver itself: database/sql would take a quarter of the time
// that an event has within a large batch.
type statement struct {
	stmt driver.Stmt
	exe  driver.StmtExecContext
	qry  driver.StmtQueryContext
	args []driver.NamedValue
}

func prepare(ctx context.Context, c driver.Conn, query string) (*statement, error) {
	preparer, ok := c.(driver.ConnPrepareContext)
	if !ok {
		return nil, fmt.Errorf("the SQLite driver's connection %T cannot prepare statements", c)
	}
	stmt, err := preparer.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	s := &statement{stmt: stmt}
	var executes, queries bool
	s.exe, executes = stmt.(driver.StmtExecContext)
	s.qry, queries = stmt.(driver.StmtQueryContext)
	if !executes || !queries {
		return nil, errors.Join(fmt.Errorf("the SQLite driver's statement %T cannot be executed", stmt), stmt.Close())
	}
	return s, nil
}

// exec runs the statement. It cannot be cancelled: what a transaction has
// begun it carries through.
func (s *statement) exec(values ...driver.Value) error {
	_, err := s.exe.ExecContext(context.Background(), s.bind(values))
	return err
}

// row runs the statement and reads its first row into dest; ok is false where
// there is none.
func (s *statement) row(dest []driver.Value, values ...driver.Value) (ok bool, err error) {
	rows, err := s.qry.QueryContext(context.Background(), s.bind(values))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	switch err := rows.Next(dest); {
	case errors.Is(err, io.EOF):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

func (s *statement) bind(values []driver.Value) []driver.NamedValue {
	s.args = s.args[:0]
	for i, v := range values {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return s.args
}

func (s *statement) close() error { return s.stmt.Close() }
