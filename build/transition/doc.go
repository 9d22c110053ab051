// Package transition is the tables of the states that build groups and their jobs are in, and
// of the events that move them from one to another (seed "Implementation of build manifest
// based builds"). It is data: the machine accepts or ignores an event by it, and the diagrams
// in the documentation are made of it.
package transition
