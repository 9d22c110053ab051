// Package statuses runs real controllers of Kubernetes and records what they write of their objects
// (scripts/controllers). Package object replays the recordings in each run of the tests.
//
// A scenario changes what a controller deploys, and knows by the workload itself which revision runs
// well. With -record its recording goes to pipeline/promotion/object/testdata/recorded.
package statuses
