// Package killloop holds tests that kill schedulers, controllers, dispatchers and servers at random
// moments, the real program over hosts that are directories and on Docker Engines, while people
// and hosts do all that they may do. Afterwards a checker that shares nothing with the program
// reads the log and the hosts.
//
// The tests kill a few times in `make test-all`, and many times in `make kill-loops`, which prints
// the seed of each round, with which it can be begun again. KILL_LOOPS_KEEP=DIRECTORY in the
// environment keeps the workspace of a round that failed.
//
// In `make test` they do nothing: to prepare one kill takes longer than all crash tests of control/*
// and internal/cli, which stop work after each event and hold the same promise.
package killloop
