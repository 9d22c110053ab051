// Package step is what is to be done next in a pipeline, and the work of it that is under way:
// a Step becomes events when it was done, has failed or is to be tried again, and Work is kept
// from its beginning until the log tells that nothing of it is running any more.
package step
