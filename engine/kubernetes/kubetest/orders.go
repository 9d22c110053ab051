package kubetest

import (
	"bufio"
	"fmt"
	"net"
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

// apart is held by the test that has the node, of all that are parallel: packages are not.
var apart sync.Mutex

// HoldApart waits until no other test uses the node Apart. The test has it to its end.
func (c *Cluster) HoldApart(t testing.TB) {
	apart.Lock()
	t.Cleanup(apart.Unlock)
}

// LoseNode kills the kubelet of the node Apart: nobody knows what becomes of its Pods, which run on.
func (c *Cluster) LoseNode(t testing.TB) { t.Helper(); c.order(t, "kill kubelet-2") }

// RestoreNode starts the kubelet again.
func (c *Cluster) RestoreNode(t testing.TB) { t.Helper(); c.order(t, "start kubelet-2") }

// FreezeNode has the kubelet of the node Apart answer nothing any more, as one does with which the
// network is gone: connections stay, and nothing comes through them.
func (c *Cluster) FreezeNode(t testing.TB) { t.Helper(); c.order(t, "freeze kubelet-2") }

// ThawNode is the end of that.
func (c *Cluster) ThawNode(t testing.TB) { t.Helper(); c.order(t, "thaw kubelet-2") }

// RestartAPIServer kills the API server, and starts it again. Only a test that is not parallel to
// others may do that. It returns while the API server starts.
func (c *Cluster) RestartAPIServer(t testing.TB) {
	t.Helper()
	c.order(t, "kill apiserver")
	c.order(t, "start apiserver")
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
