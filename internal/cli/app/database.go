package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/internal/usercache"
)

// openDatabase opens the log in a database.
func (a *App) openDatabase(ctx context.Context, o postgres.Options) (*postgres.Log, error) {
	name, err := a.LogName() // which refuses what is no URL
	if err != nil {
		return nil, err
	}
	url, _ := a.logURL()
	if cache, err := usercache.Dir(); err == nil { // without one, the log is read again
		o.Snapshots = filepath.Join(cache, "snapshots")
	}
	log, err := postgres.Open(ctx, url, o)
	if errors.Is(err, postgres.ErrNoLog) {
		err = noLog(name)
	}
	return log, err
}

// database has the log by which what is beside the events is reached. It lasts as long as the
// process: texts are loaded before a log is opened, and after it is closed.
type database struct {
	mu  sync.Mutex
	log *postgres.Log
}

// beside opens the log of the process, once. It is made when it is not there and something is to
// be kept.
func (a *App) beside(keep bool) (*postgres.Log, error) {
	a.database.mu.Lock()
	defer a.database.mu.Unlock()
	if a.database.log == nil {
		ctx, cancel := context.WithTimeout(context.Background(), openTime)
		defer cancel()
		log, err := a.openDatabase(ctx, postgres.Options{Logger: Logger(a.Err), Now: a.Now, Existing: !keep})
		if err != nil {
			return nil, err
		}
		a.database.log = log
	}
	return a.database.log, nil
}

// openTime is how long a database may take to be opened for what is beside the events.
const openTime = time.Minute

// CloseDatabase closes what was opened for what is beside the events.
func (a *App) CloseDatabase() {
	a.database.mu.Lock()
	defer a.database.mu.Unlock()
	if a.database.log != nil {
		_ = a.database.log.Close() // all of it is kept
		a.database.log = nil
	}
}

// besideLog is what is beside the events of a log in a database, which is opened when something of
// it is asked for. It implements objects.Keeper.
type besideLog struct{ app *App }

var _ objects.Keeper = besideLog{}

func (b besideLog) Load(hash string) (content []byte, err error) {
	err = b.read(objects.ErrMissing, func(l *postgres.Log) (err error) {
		content, err = l.Objects().Load(hash)
		return err
	})
	return content, err
}

func (b besideLog) Keep(hash string, content []byte) error {
	return b.write(func(l *postgres.Log) error { return l.Objects().Keep(hash, content) })
}

func (b besideLog) Salt() (salt []byte, err error) {
	err = b.read(objects.ErrMissing, func(l *postgres.Log) (err error) {
		salt, err = l.Objects().Salt()
		return err
	})
	return salt, err
}

func (b besideLog) KeepSalt(salt []byte) error {
	return b.write(func(l *postgres.Log) error { return l.Objects().KeepSalt(salt) })
}

func (b besideLog) Prune(ctx context.Context, before time.Time, needed func(string) bool, dryRun bool) (pruned objects.Pruned, err error) {
	err = b.write(func(l *postgres.Log) (err error) {
		pruned, err = l.Objects().Prune(ctx, before, needed, dryRun)
		return err
	})
	return pruned, err
}

// read has something read. Where there is no log, it is missing.
func (b besideLog) read(missing error, do func(*postgres.Log) error) error {
	log, err := b.app.beside(false)
	if errors.Is(err, ErrNoLog) {
		return fmt.Errorf("%w: %w", missing, err)
	}
	if err != nil {
		return err
	}
	return do(log)
}

func (b besideLog) write(do func(*postgres.Log) error) error {
	log, err := b.app.beside(true)
	if err != nil {
		return err
	}
	return do(log)
}

// documentsOfLog are those with secrets beside a log in a database. It implements protected.Remote.
type documentsOfLog struct{ besideLog }

var _ protected.Remote = documentsOfLog{}

func (d documentsOfLog) Load(name string) (content []byte, err error) {
	err = d.read(fs.ErrNotExist, func(l *postgres.Log) (err error) {
		content, err = l.Documents().Load(name)
		return err
	})
	return content, err
}

func (d documentsOfLog) Keep(name string, content []byte) error {
	return d.write(func(l *postgres.Log) error { return l.Documents().Keep(name, content) })
}

func (d documentsOfLog) Remove(name string) error {
	return d.write(func(l *postgres.Log) error { return l.Documents().Remove(name) })
}

func (d documentsOfLog) Old(before time.Time) (all []protected.Kept, err error) {
	err = d.read(fs.ErrNotExist, func(l *postgres.Log) (err error) {
		all, err = l.Documents().Old(before)
		return err
	})
	return all, err
}

func (d documentsOfLog) String() string {
	name, err := d.app.LogName()
	if err != nil {
		return "the database of the log"
	}
	return name
}
