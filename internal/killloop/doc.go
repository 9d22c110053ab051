// Package killloop holds tests that kill schedulers, controllers, dispatchers and servers at random
// moments, the real program over hosts that are directories and on Docker Engines, while people
// and hosts do all that they may do. Afterwards a checker that shares nothing with the program
// reads the log and the hosts.
//
// Each test makes a few kills; `make kill-loops` makes many, and prints the seed of each
// round, with which it can be begun again. KILL_LOOPS_KEEP=DIRECTORY in the environment keeps the
// workspace of a round that failed.
package killloop
