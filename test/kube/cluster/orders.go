package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"syscall"
)

// takeOrders does what tests ask for at a socket, a line each: kill, start, freeze or thaw, and
// the name of a component. The answer is a line as well, empty once that is done.
func (p *place) takeOrders(orders net.Listener) error {
	for {
		from, err := orders.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = from.Close() }()
			line, _ := bufio.NewReader(from).ReadString('\n')
			order, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			said := ""
			if err := p.carryOut(order, name); err != nil {
				said = err.Error()
			}
			_, _ = fmt.Fprintln(from, said)
		}()
	}
}

func (p *place) carryOut(order, name string) error {
	pid := p.process(name)
	if order == "start" {
		for _, c := range p.components() {
			if c.name == name && pid == 0 {
				return p.run(c)
			}
		}
		return fmt.Errorf("there is no component %q that could be started", name)
	}
	signal, known := map[string]syscall.Signal{"kill": syscall.SIGKILL, "freeze": syscall.SIGSTOP, "thaw": syscall.SIGCONT}[order]
	if !known || pid == 0 {
		return fmt.Errorf("%s %q: it does not run, or nobody knows how to do that", order, name)
	}
	if order != "kill" {
		return syscall.Kill(pid, signal)
	}
	ended := make(chan struct{})
	p.mu.Lock()
	p.killed[pid] = ended
	p.mu.Unlock()
	if err := syscall.Kill(pid, signal); err != nil {
		return err
	}
	<-ended
	return nil
}
