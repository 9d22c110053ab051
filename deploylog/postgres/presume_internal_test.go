package postgres

import (
	"net"
	"path/filepath"
	"testing"
)

// Whether a connection is there is known without waiting for who reads from it.
func TestAConnectionIsLookedAtWithoutWaiting(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	near, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	began, read := make(chan bool), make(chan error, 1)
	go func() {
		close(began)
		_, err := near.Read(make([]byte, 1))
		read <- err
	}()
	<-began
	for range 1000 { // until it does wait
		if !silent(near) {
			t.Fatal("nothing was sent, and the connection is not silent")
		}
	}
	if _, err := far.Write([]byte("xy")); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	if silent(near) {
		t.Error("something waits to be read, and the connection is silent")
	}
	if _, err := near.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := far.Close(); err != nil {
		t.Fatal(err)
	}
	if silent(near) {
		t.Error("the other end has hung up, and the connection is silent")
	}
}
