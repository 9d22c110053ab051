// Package pipeline carries revisions of a project through a pipeline that may
// change while they are in progress (seed "Deployment Log"). Package record has what is
// recorded, and package deployment what follows of one revision.
//
// # What may be done
//
// next of an entry are the entries that directly follow it, after it all that
// ever do. The frontier of a revision is what is reached from pipeline-started
// by going through complete entries, seen keeps track of where that has been.
// Of the frontier
//
//   - a step is new if nothing after it is complete. What is not new was put into
//     the pipeline behind the revision's back: it is gone through as if it were
//     complete, and never done;
//   - a step is ready if it is not after another step of the frontier: where
//     paths join, the last one to come goes on;
//   - a step is doable if it is both;
//   - a step is unlocked if no other revision is in one of the batches that begin
//     with it. A batch is two stages, from the start of one to the end of the
//     other; each stage is one by itself. Older revisions choose first.
//
// The tests hold that algorithm, word by word, against this package, which gets
// the same without the search: a stage keeps whether it has begun and was passed,
// a host how far it has come, and a group which hosts are open. So a step costs
// the same, however many were done before.
//
// # Pauses
//
// In a pipeline or a stage that a person has paused nothing begins: neither the stage, a
// group or a host nor the work of a step. What has begun ends, and that is recorded.
//
// # Rollbacks
//
// A revision that is deployed to one stage again has a deployment of its own, for which all
// other stages are passed. It does its steps as the first deployment of the revision did,
// and enters the stage although that is paused, which is what keeps the others out.
//
// What does something of a stage again, on hosts that failed there or as a whole, is such a
// deployment, too. It is in the stage from its registration on, and in all batches that the
// stage belongs to, with nobody but the revision that it is of.
//
// # Inputs
//
// A revision takes revisions of other pipelines when it is released, which package upstream
// chooses among those that Candidates offers, and keeps them as it keeps its manifests.
//
// # Where things are
//
// Package definition reads files. A layout is a definition with the members of its groups,
// arranged so that events are found in it; a deployment is one revision's events
// under a layout. Propose turns a command into events, or refuses it.
// The projection of a deployment is the disposition of all that has not happened:
// from it Explain says why something does not move, Preview what a change
// would do, and Status how far everything is.
package pipeline
