// Package record is what the log says of pipelines: the names of their events, the targets
// that these happen to, the data that they hold, and the marks that are left of them. Whoever
// folds events, and whoever words them, reads them with it; it decides nothing.
//
// # Entries
//
// What happened is in the deployment log: to this target, in this deployment,
// this event. That is an entry, and it happens once. A revision that is released
// gets a fresh deployment, whose entries nest as its pipeline does:
//
//	pipeline-started                     pipeline/ant-gateway
//	  stage-started                      stage/ant-gateway/beta
//	    host-group-started               host-group/ant-gateway/beta
//	      host-started                   host/ant-gateway/beta/antworker002
//	        host-deployed                   (the steps of the definition)
//	      host-finished-successfully
//	    host-group-finished-successfully
//	  stage-finished-successfully
//	pipeline-finished-successfully
//
// What is to be done is never stored: package pipeline finds it, by the definition and the
// members of host groups as they are at the moment, so that a change of them takes hold of
// every revision.
package record
