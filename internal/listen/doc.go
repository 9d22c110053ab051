// Package listen opens what a server listens on: addresses, Unix sockets, and those that
// systemd passes to it.
//
// What others than this machine can reach is encrypted, unless somebody says that it need not
// be. The certificates of TLS may change while the server runs: connections that come later
// use the new ones, and as long as those cannot be read the last ones serve on.
package listen
