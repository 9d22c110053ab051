package cli_test

import (
	"path/filepath"
	"testing"
)

// Who has a key and may but read approves through a server, as the owner of the key: through
// whichever address, for which the approval is signed.
func TestSignedApprovalsAreGivenThroughAServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  {}")
	s.write("one.yaml", "pipeline: one\nstages: [{name: ask, approval: {approvals: 2}}]\n")
	s.deployster("pipeline", "apply", "-f", "one.yaml")
	s.deployster("pipeline", "release", "one", "1")
	for _, key := range []string{"ci", "lead", "stray"} {
		s.deployster("pipeline", "key", "create", "one", key, "--owner", key+".owner", "--out", key+".pem")
	}
	s.deployster("pipeline", "key", "revoke", "one", "stray")
	r := s.serve("socket", "--listen", "127.0.0.1:0", "--output", "json")
	s.until(1, s.happened("stage-started", "stage/one/ask"))
	far := asker{program: binary, dir: s.dir, server: "http://" + r.address(t), token: s.token("reader", "viewer")}
	near := asker{program: binary, dir: s.dir, server: "unix:" + filepath.Join(s.dir, "socket")}

	far.want(t, 1, "you may not do this", "pipeline", "approve", "one", "ask", "1")
	far.want(t, 1, "does not accept the signature, which is for http://127.0.0.1:", "pipeline", "approve", "one", "ask", "1", "--key", "stray.pem")
	far.want(t, 1, "no-such.pem", "pipeline", "approve", "one", "ask", "1", "--key", "no-such.pem")
	far.want(t, 0, "revision 1 of pipeline one waits at stage ask: ", "pipeline", "approve", "one", "ask", "1", "--key", "ci.pem", "--reason", "all green")
	far.want(t, 1, "ci.owner", "pipeline", "approve", "one", "ask", "1", "--key", "ci.pem") // it counts once
	near.want(t, 0, "revision 1 of pipeline one is approved at stage ask (event ", "pipeline", "approve", "one", "ask", "1", "--key", "lead.pem")
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/one"))
	s.wantBy("stage-approval-given", "key:ci.owner")
	s.end(r)

	s.deployster("pipeline", "release", "one", "2")
	r = s.serve("socket", "--public-url", "https://deploy.example", "--output", "json")
	s.until(1, s.happened("pipeline-started", "pipeline/one"))
	near.want(t, 1, "serve --public-url", "pipeline", "approve", "one", "ask", "2", "--key", "ci.pem")
	s.end(r)
}
