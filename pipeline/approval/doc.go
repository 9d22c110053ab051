// Package approval is what people and keys say of the revisions that wait for approval:
// whose approvals count for what a revision carries, and which keys may sign for whom.
//
// An approval is of a stage, a revision, an attempt and the hash of what the revision
// carries. It counts while all of these are as they were when it was given; afterwards it is
// void, and says why. All of this follows from the log, so nothing can lose an approval, and
// nobody can give one that is not in it.
package approval
