// Package audit reads out of a job's directory what a comparison stands on: the
// conditions under which each arm worked, and what left the machine for it.
//
// It reads records that the harness wrote (results, configurations, ledgers of
// the network, lists of model calls) and, for the files whose text went to a
// model, what the agents' tool calls name. It judges no work, changes nothing,
// and tells what was not recorded from what was not there.
package audit
