package agent

// Recorder collects the steps of one run into an ATIF trajectory.
type Recorder struct{}
