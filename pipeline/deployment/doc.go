// Package deployment is one revision on its way through a pipeline: what the log has recorded
// of it, and what follows from that under the layout of the moment, such as which stages it
// has passed and which hosts are in flight. It knows no other revision: who may go where
// first is decided over all of them, in package pipeline.
//
// # Introductions
//
// A step that is introduced halfway must not run for the first time
// deep within it. So a definition is recorded with the number of revisions that
// were registered when each of its steps was introduced. A revision that
// is younger does the step. An older one does it too, unless it has skipped it
// on any host: then it leaves it out everywhere. Likewise a kind of artifact is
// only waited for by younger revisions.
//
// A step that changes, because it has another manifest or that has another text, has one
// to take its place in the revisions that are under way: what it was when they were released.
// They keep that, unless a definition is recorded with their names as adopting it.
//
// # Failures
//
// The failure of a step for good (STEP-failed) fails its host, more failed hosts
// than the group's budget allows fail the group, and that the stage and the
// pipeline at once; what is running then is still recorded. A retry forgets the
// failures of the attempts before it, and continues from the frontier.
package deployment
