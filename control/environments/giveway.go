package environments

import (
	"context"
	"errors"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
)

// Controllers keep out of each other's way. Of those of all environments one is in
// the seat, and the others stand by. Those of some do nothing while somebody is in it.
// Whoever has work in flight on an environment holds its lock. It is only taken under
// the gate, so who could have it in a round may record what it decides in that round.

// lockController is held by the one controller of all environments that does anything.
const lockController = "controller"

// lockOf is held by the controller that has work in flight on an environment.
func lockOf(environment string) string { return lockController + "/" + environment }

// ControllerAtWork tells whether a controller of all environments works on the log.
func ControllerAtWork(log deploylog.Log) bool { return reconcile.Taken(log, lockController) }

// WorksOn tells whether some controller has work in flight on an environment.
func WorksOn(log deploylog.Log, environment string) bool {
	return reconcile.Taken(log, lockOf(environment))
}

// turns is which environments are whose turn.
type turns struct {
	standby bool              // a controller of all environments is at work
	held    map[string]func() // unlock the environments on which work is in flight
	aside   map[string]bool   // environments that another controller works on
	back    roll              // those of them that it does not any more
}

// seatPatience is how long somebody is in the seat at least. Who only looks whether
// anybody is leaves it sooner.
const seatPatience = 50 * time.Millisecond

// giveWay stands by while a controller of all environments is at work, and goes on
// as if it had just started when that has ended.
func (c *Controller) giveWay(looking context.Context) {
	if len(c.Environments) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(looking, seatPatience)
	defer cancel()
	unlock, err := c.Log.Lock(ctx, lockController)
	if err == nil {
		unlock()
	}
	standby := errors.Is(err, deploylog.ErrLocked)
	if looking.Err() != nil || err != nil && !standby || standby == c.turns.standby {
		return
	}
	c.turns.standby = standby
	if !standby {
		c.tell(func(to Audience) { to.Notice("the controller of all environments has ended: going on") })
		for _, name := range c.Environments {
			c.takeUp(looking, name)
		}
		return
	}
	c.tell(func(to Audience) { to.Notice("a controller of all environments is at work: standing by") })
	clear(c.turns.aside)
	for _, name := range c.Environments {
		c.checks.forget(name)
	}
}

// takeUp has everything looked at that there is of an environment.
func (c *Controller) takeUp(looking context.Context, name string) {
	if c.environments.States[name] != nil {
		c.find(name)
		c.sync(looking, name, true)
	}
}

// mine tells whether no other controller has work in flight on an environment. Then
// none begins any in this round; to keep it so while work is in flight takes the lock.
// What another one works on is left to it.
func (c *Controller) mine(name string, keep bool) bool {
	if c.lock(name, keep) {
		return true
	}
	c.turns.aside[name] = true
	c.checks.forget(name)
	return false
}

// lock tells whether the lock of an environment can be had, and keeps it if it is to.
// Whatever else is wrong with locks is found out about at the gate.
func (c *Controller) lock(name string, keep bool) bool {
	if c.turns.held[name] != nil {
		return true
	}
	unlock, err := c.Log.TryLock(lockOf(name))
	switch {
	case err != nil:
		return false
	case keep:
		c.turns.held[name] = unlock
	default:
		unlock()
	}
	return true
}

// regain takes note of it when another controller has ended its work on an
// environment.
func (c *Controller) regain(name string) {
	if c.lock(name, false) {
		c.turns.back.add(name)
	}
}

// goOn takes up what others have ended their work on: it may be in another way now.
func (c *Controller) goOn(looking context.Context) {
	for _, name := range c.turns.back.take() {
		delete(c.turns.aside, name)
		c.takeUp(looking, name)
	}
}

// letGo unlocks the environments on which nothing is in flight any more.
func (c *Controller) letGo() {
	for name, unlock := range c.turns.held {
		if c.crew.of[name] == 0 {
			unlock()
			delete(c.turns.held, name)
		}
	}
}
