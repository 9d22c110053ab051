package kubetest

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Apart is the second node of a cluster. Pods come to it that tolerate the taint of that name and
// select this node, and no others: a test that holds it (HoldApart) may do to it what it likes,
// see the orders below, and leaves it as it was.
const (
	Apart = "node-2"
	Taint = "apart:NoSchedule"
)

// second is held by the test that has the second cluster.
var second sync.Mutex

// apart is held by the test that has the node, of all that are parallel: packages are not.
var apart sync.Mutex

// HoldApart waits until no other test uses the node Apart. The test has it to its end.
func (c *Cluster) HoldApart(t testing.TB) {
	apart.Lock()
	t.Cleanup(apart.Unlock)
}

// LoseNode kills the kubelet of the node Apart: nobody knows what becomes of its Pods, which run on.
// restore starts it again, and so does the end of the test.
func (c *Cluster) LoseNode(t testing.TB) (restore func()) {
	t.Helper()
	return c.disturb(t, "kill kubelet-2", "start kubelet-2")
}

// FreezeNode has the kubelet of the node Apart answer nothing any more, as one does with which the
// network is gone: connections stay, and nothing comes through them. thaw is the end of that, and
// so is that of the test.
func (c *Cluster) FreezeNode(t testing.TB) (thaw func()) {
	t.Helper()
	return c.disturb(t, "freeze kubelet-2", "thaw kubelet-2")
}

// disturb carries an order out that another one undoes, once.
func (c *Cluster) disturb(t testing.TB, order, undoing string) (undo func()) {
	t.Helper()
	c.order(t, order)
	var undone sync.Once
	undo = func() { undone.Do(func() { c.order(t, undoing) }) }
	t.Cleanup(undo)
	return undo
}

// RestartAPIServer kills the API server, and starts it again. Only a test that is not parallel to
// others may do that. It returns while the API server starts.
func (c *Cluster) RestartAPIServer(t testing.TB) {
	t.Helper()
	c.order(t, "kill apiserver")
	c.order(t, "start apiserver")
}

// StartSecond starts another cluster, with the same users, which has objects of its own and no nodes.
// It ends with the test, for which another one waits that wants it.
func (c *Cluster) StartSecond(t testing.TB) *Cluster {
	t.Helper()
	second.Lock()
	t.Cleanup(second.Unlock)
	c.disturb(t, "start second-apiserver", "kill second-apiserver")
	started := &Cluster{Server: c.Second, Token: c.Token, Limited: c.Limited, Host: c.Host, Programs: c.Programs}
	Until(t, "the API server of the second cluster is ready", func() (string, bool) {
		said, err := started.ask(http.MethodGet, "/readyz", nil)
		return fmt.Sprintf("%s %v", said, err), err == nil
	})
	return started
}

// StartControllers starts the controllers of workloads, which end with the test. Other tests say
// themselves what these would say: only a test that is not parallel to others may do that.
func (c *Cluster) StartControllers(t testing.TB) {
	t.Helper()
	c.disturb(t, "start controllers", "kill controllers")
}

// order returns when what is asked for was done.
func (c *Cluster) order(t testing.TB, words string) {
	t.Helper()
	said, err := func() (string, error) {
		to, err := net.Dial("unix", c.Orders)
		if err != nil {
			return "", err
		}
		defer func() { _ = to.Close() }()
		if err := to.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			return "", err
		}
		if _, err := fmt.Fprintln(to, words); err != nil {
			return "", err
		}
		return bufio.NewReader(to).ReadString('\n')
	}()
	if said = strings.TrimSpace(said); err != nil || said != "" {
		t.Fatalf("%s: %v %s", words, err, said)
	}
}
