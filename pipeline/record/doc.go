// Package record is what the log says of pipelines: the names of their events, the targets
// that these happen to, the data that they hold, and the marks that are left of them. Whoever
// folds events, and whoever words them, reads them with it; it decides nothing.
package record
