// Package replay is a provider that answers from the record of an earlier
// trial, so that an agent can be run again without its model: the same
// requests get the same bytes, errors and broken streams included.
//
// A request is known by its conversation alone: who said what, which tools
// were called and what they gave. Names of models, sampling parameters, tool
// definitions and ids are not looked at, since a job may change them, and
// whatever differs from run to run is made equal first; see [Plain]. A
// conversation that the record does not know is an error that names the first
// difference. Nothing is ever asked of a network.
package replay
