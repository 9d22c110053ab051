// Package approval takes approvals that keys have signed: HTTP requests with a signature of
// RFC 9421 over the method, the target URI and the digest of the content, which says when it
// was created, when it expires, a nonce, and which key made it.
//
// Verify decides by the request, the keys of the pipeline's log and the time alone. What is
// refused before the signature has been verified is refused with the same answer, whatever
// is wrong, so that an answer shows neither which keys there are nor what would have been
// right. The approval is recorded with its nonce, under the lock under which pipelines
// change: a nonce serves once, for all processes that share the log, and for ever.
package approval
