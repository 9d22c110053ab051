// Package report is what there is to say of an environment at one moment: its revisions,
// deployments, hosts and tasks, as status tells them, in text and in JSON.
package report
