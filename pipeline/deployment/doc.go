// Package deployment is one revision on its way through a pipeline: what the log has recorded
// of it, and what follows from that under the layout of the moment, such as which stages it
// has passed and which hosts are in flight. It knows no other revision: who may go where
// first is decided over all of them, in package pipeline.
package deployment
