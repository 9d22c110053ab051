package snapshotfile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/deployster-go/deployster/deploylog"
)

const (
	indexSuffix = ".index" // ends the names of directories, each with one index
	indexFile   = "index.db"

	indexSchema = `
CREATE TABLE IF NOT EXISTS head (one INTEGER PRIMARY KEY CHECK (one = 1), log TEXT NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS documents (key BLOB PRIMARY KEY, content BLOB NOT NULL) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO head VALUES (1, '', 0, x'');`
)

// Indexes are those of one log, open until they are closed.
type Indexes struct {
	Dir    string
	Origin func(ctx context.Context, seq int64) (Origin, error) // of the log; that of an event that it has not is zero
	Share  func(dir *os.File, made bool)                        // as of Write

	mu   sync.Mutex
	open map[string]*index
}

// index is a deploylog.Index in a file of SQLite, which is as durable as a log: half of one would be wrong, not slow.
type index struct {
	db     *sql.DB
	file   fs.FileInfo
	origin func(ctx context.Context, seq int64) (Origin, error)

	mu    sync.Mutex
	known int64 // up to this event it was found to be of the log
}

// errForeign says that an index is not of the log, as that is now.
var errForeign = errors.New("it is of another history")

// Open returns the index of a name that this user keeps. One that cannot be used is replaced.
func (x *Indexes) Open(ctx context.Context, name string) (deploylog.Index, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := makeDir(x.Dir, x.Share); err != nil {
		return nil, err
	}
	dir := filepath.Join(x.Dir, name+"."+strconv.Itoa(os.Geteuid())+indexSuffix)
	if i := x.open[name]; i != nil {
		if now, err := os.Stat(filepath.Join(dir, indexFile)); err == nil && os.SameFile(now, i.file) {
			return i, nil
		}
		_ = i.db.Close() // it was pruned, or replaced
		delete(x.open, name)
	}
	i, err := openIndex(ctx, dir, x.Origin)
	if isOfNoUse(err) {
		// Its journal must not come to be that of another file: all of the directory goes.
		gone := filepath.Join(x.Dir, unfinished+filepath.Base(dir))
		_ = os.RemoveAll(gone)
		if err = os.Rename(dir, gone); err == nil {
			_ = os.RemoveAll(gone)
			i, err = openIndex(ctx, dir, x.Origin)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open index %s of the deployment log: %w", name, err)
	}
	if x.open == nil {
		x.open = map[string]*index{}
	}
	x.open[name] = i
	return i, nil
}

// Close closes them.
func (x *Indexes) Close() (err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, i := range x.open {
		err = errors.Join(err, i.db.Close())
		delete(x.open, name)
	}
	return err
}

// isOfNoUse reports whether an index is damaged, or of another history.
func isOfNoUse(err error) bool {
	if errors.Is(err, errForeign) {
		return true
	}
	var failed *sqlite.Error
	if !errors.As(err, &failed) {
		return false
	}
	code := failed.Code() & 0xff
	return code == lib.SQLITE_CORRUPT || code == lib.SQLITE_NOTADB
}

func openIndex(ctx context.Context, dir string, origin func(context.Context, int64) (Origin, error)) (i *index, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if own, is := info.Sys().(*syscall.Stat_t); !is || !info.IsDir() || int(own.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: %w: it is not a directory of this user alone", dir, errForeign)
	}
	at := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(filepath.Join(dir, indexFile))}
	db, err := sql.Open("sqlite", at.String()+"?_busy_timeout=5000&_pragma=synchronous(FULL)&_pragma=journal_mode(DELETE)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	db.SetMaxOpenConns(2)
	i = &index{db: db, origin: origin}
	_, _, err = i.Read(ctx)
	if i.file, _ = os.Stat(filepath.Join(dir, indexFile)); err == nil {
		return i, nil
	}
	if !strings.Contains(err.Error(), "no such table") {
		return nil, err
	}
	tx, err := db.BeginTx(ctx, nil) // another process may be at it, too
	if err != nil {
		return nil, err
	}
	if _, err = tx.ExecContext(ctx, indexSchema); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	if err = tx.Commit(); err == nil {
		_, _, err = i.Read(ctx)
	}
	return i, err
}

// isOf fails where an index is not of the log.
func (i *index) isOf(ctx context.Context, of Origin, seq int64) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if seq == i.known {
		return nil
	}
	here, err := i.origin(ctx, seq)
	if err == nil && here != of {
		err = errForeign
	}
	if err != nil {
		return err
	}
	i.known = seq
	return nil
}

// read reads documents d, with what the index is of, in one transaction: each row has both. "" is none of them.
func (i *index) read(ctx context.Context, where string, args ...any) (seq int64, docs map[string][]byte, err error) {
	query := "SELECT log, seq, hash, NULL, NULL FROM head"
	if where != "" {
		query = "SELECT h.log, h.seq, h.hash, d.key, d.content FROM head h LEFT JOIN documents d ON " + where
	}
	rows, err := i.db.QueryContext(ctx, query, args...)
	if err != nil {
		return 0, nil, err
	}
	defer rows.Close() //nolint:errcheck // it was read to its end
	docs = map[string][]byte{}
	var of Origin
	found := false
	for rows.Next() {
		var hash, key, content []byte
		if err := rows.Scan(&of.Log, &seq, &hash, &key, &content); err != nil {
			return 0, nil, err
		}
		if of.Hash, found = string(hash), true; key != nil {
			docs[string(key)] = content
		}
	}
	switch err := rows.Err(); {
	case err != nil:
		return 0, nil, err
	case !found:
		return 0, nil, errForeign
	case seq == 0:
		return 0, docs, nil
	}
	return seq, docs, i.isOf(ctx, of, seq)
}

// atOnce is how many keys are asked for in one query.
const atOnce = 250

// Read implements deploylog.Index.
func (i *index) Read(ctx context.Context, keys ...string) (int64, map[string][]byte, error) {
	return i.some(ctx, keys, func(some []string) (int64, map[string][]byte, error) {
		args := make([]any, len(some))
		for n, key := range some {
			args[n] = []byte(key)
		}
		return i.read(ctx, "d.key IN ("+strings.TrimSuffix(strings.Repeat("?,", len(some)), ",")+")", args...)
	})
}

// Under implements deploylog.Index.
func (i *index) Under(ctx context.Context, prefixes ...string) (int64, map[string][]byte, error) {
	return i.some(ctx, prefixes, func(some []string) (int64, map[string][]byte, error) {
		var args []any
		for _, prefix := range some {
			args = append(args, []byte(prefix), append([]byte(prefix), 0xff))
		}
		return i.read(ctx, strings.TrimSuffix(strings.Repeat("d.key >= ? AND d.key < ? OR ", len(some)), " OR "), args...)
	})
}

// some reads what keys name, some of them at once.
func (i *index) some(ctx context.Context, keys []string, read func([]string) (int64, map[string][]byte, error)) (seq int64, docs map[string][]byte, err error) {
	if len(keys) == 0 {
		return i.read(ctx, "")
	}
	for some := range slices.Chunk(keys, atOnce) {
		upTo, more, err := read(some)
		switch {
		case err != nil:
			return 0, nil, err
		case docs == nil:
			seq, docs = upTo, more
		case upTo != seq:
			return 0, nil, deploylog.ErrIndexMoved
		default:
			maps.Copy(docs, more)
		}
	}
	return seq, docs, nil
}

// Write implements deploylog.Index.
func (i *index) Write(ctx context.Context, from, to int64, changes map[string][]byte) (err error) {
	of, err := i.origin(ctx, to)
	if err != nil {
		return err
	}
	tx, err := i.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback()
		}
	}()
	var seq int64
	if err := tx.QueryRowContext(ctx, "SELECT seq FROM head").Scan(&seq); err != nil {
		return err
	}
	if seq != from {
		return deploylog.ErrIndexMoved
	}
	put, err := tx.PrepareContext(ctx, "INSERT OR REPLACE INTO documents VALUES (?, ?)")
	if err != nil {
		return err
	}
	remove, err := tx.PrepareContext(ctx, "DELETE FROM documents WHERE key = ?")
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(changes)) { // as they lie in the file
		if content := changes[key]; content == nil {
			_, err = remove.ExecContext(ctx, []byte(key))
		} else {
			_, err = put.ExecContext(ctx, []byte(key), content)
		}
		if err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "UPDATE head SET log = ?, seq = ?, hash = ?", of.Log, to, []byte(of.Hash)); err != nil {
		return err
	}
	return tx.Commit()
}
