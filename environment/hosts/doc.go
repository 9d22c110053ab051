// Package hosts is one host of an environment: what is known of it and its tasks, what the
// active deployment wants of it, and so what its next step is and what budget that draws on.
// Which hosts get their turn is decided over all of them, in package environment.
package hosts
