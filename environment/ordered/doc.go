// Package ordered is the order in which hosts get their turn: sets of them by their indexes,
// and the zones that they are in, as people order these. It knows nothing of what is done on
// a host.
package ordered
