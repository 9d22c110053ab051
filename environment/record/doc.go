// Package record is what the log says of environments: the names of their events, the targets
// that these happen to, and the data that they hold. It decides nothing.
package record
