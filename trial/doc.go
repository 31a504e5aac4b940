// Package trial is the vocabulary of one attempt of one agent at one task:
// its endings, usage, events and result file. It imports nothing of assay's
// own, starts nothing and reads no clock.
//
// A result on disk is Harbor 0.25's result.json to the letter; what Harbor has
// no field for stands in agent_result.metadata.assay (see [Record]), so that
// Harbor's own models load every file without an unknown key.
package trial
