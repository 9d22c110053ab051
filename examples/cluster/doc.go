// Package cluster has two servers and PostgreSQL on Kubernetes, and the test that the objects are
// such as an API server takes, and that their Pods run.
package cluster
