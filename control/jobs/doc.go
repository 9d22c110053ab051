// Package jobs does the jobs of build groups: each in a container on the engine of a worker,
// with what it uses mounted read-only, and what it makes collected as an artifact.
//
// # What a container sees
//
//	/var/lib/deployster/sources        its sources, at their paths: its working directory
//	/var/lib/deployster/out            empty and writable: what is here at the end is the artifact
//	/var/lib/deployster/dependencies   by name, the artifact of each package it needs directly
//	/var/lib/deployster/artifacts      by digest, all that it may use, also what that needs to run
//	/var/lib/deployster/job.json       which is what
//	/var/lib/deployster/metadata       a file for lines KEY=VALUE
//
// # Who is at fault
//
// A job never fails with an error: it is Finished, Failed, Lost or Canceled. Failed is the
// fault of the job, or of what the group carries, and would come again anywhere; Lost is that
// of the worker, its engine or its disk, or of an artifact that is not there as it was made.
//
// # A process that dies
//
// A job has a directory of its own while it is being done:
//
//	work/base-7~12.1/begun.json   written before its container is made
//	work/base-7~12.1/ended.json   written when that has ended, and how
//	work/base-7~12.1.result       written when all is collected, and what came of it
//
// Each is one object, of which no part is one, so that it is there whole or not at all; and each
// stands for all before it. None that is there is written again. So whoever resumes the
// job takes the result where there is one; else collects what a container left that is known
// to have ended; else waits for the container, which is found by its labels; and where that is
// gone, too, the job is lost. Nothing of this is durable: where the machine ends, so do the
// containers. A result stays for a minute, until it is in the log.
//
// # What is trusted
//
// Nothing that a container wrote: its output, its metadata and its log are bounded, and none
// of them is read through a link. What a job writes cannot take the last of the disk, which
// the log of events needs: it is stopped before that. One that is faster is found when a job ends
// for want of space, by how much each has written.
package jobs
