package postgres_test

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog/postgres"
)

// pooler lends one connection, which has a path, to all its clients, for a query each. It returns
// the URL of the log behind it.
func pooler(t *testing.T, schema, path string) string {
	t.Helper()
	url, dir := server.URL(schema), t.TempDir()
	backend, err := pgx.Connect(t.Context(), strings.Replace(url, "schema="+schema, "search_path="+path, 1))
	require.NoError(t, err)
	lent, err := backend.PgConn().Hijack()
	require.NoError(t, err)
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	require.NoError(t, err)
	var mu sync.Mutex
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
		_ = lent.Conn.Close()
	})
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { lend(&mu, lent, client) })
		}
	})
	from := url[strings.Index(url, "host=")+len("host=") : strings.Index(url, "&")]
	return strings.Replace(url, from, strings.ReplaceAll(dir, "/", "%2F"), 1) + "&default_query_exec_mode=simple_protocol"
}

// lend serves a client, one simple query after the other.
func lend(mu *sync.Mutex, lent *pgconn.HijackedConn, client net.Conn) {
	defer client.Close()
	near := pgproto3.NewBackend(client, client)
	if _, err := near.ReceiveStartupMessage(); err != nil {
		return
	}
	near.Send(&pgproto3.AuthenticationOk{})
	near.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	near.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	near.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	near.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for near.Flush() == nil {
		message, err := near.Receive()
		query, is := message.(*pgproto3.Query)
		if err != nil || !is {
			return
		}
		if !answer(mu, lent, near, query) {
			return
		}
	}
}

// answer has a query answered by the connection that is lent.
func answer(mu *sync.Mutex, lent *pgconn.HijackedConn, near *pgproto3.Backend, query *pgproto3.Query) bool {
	mu.Lock()
	defer mu.Unlock()
	lent.Frontend.Send(query)
	if lent.Frontend.Flush() != nil {
		return false
	}
	for {
		message, err := lent.Frontend.Receive()
		if err != nil {
			return false
		}
		near.Send(message)
		if _, done := message.(*pgproto3.ReadyForQuery); done {
			return true
		}
		if near.Flush() != nil { // what was received is valid until the next one
			return false
		}
	}
}

// Behind what lends a connection for each transaction, two who have a lock each could have the
// same one; and what drops settings leads to other tables.
func TestAPoolerOfTransactionsIsRefused(t *testing.T) {
	t.Parallel()
	open(t, server.URL("pooled"))
	for name, path := range map[string]string{"it keeps settings": "%22pooled%22", "it drops settings": "public"} {
		err := notOpened(t, pooler(t, "pooled", path), postgres.Options{})
		assert.ErrorContains(t, err, "a pooler is between", name)
		assert.ErrorContains(t, err, "name the server itself", name)
	}
}
