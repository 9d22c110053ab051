// Package tasks is one task of an environment: what is applied to one host, how it is seen
// when it is probed, what the log has recorded of it, and the steps that are taken with it.
// Which step comes next is decided over all hosts, in package environment.
package tasks
