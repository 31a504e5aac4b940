// Package bench measures what a sandbox backend costs: the time of each
// operation, cycles per second with several at once, and memory per idle
// sandbox, beside plain fork+exec and, where a Docker client answers, docker
// run and docker exec, all in one run on one machine.
//
// It judges nothing and keeps nothing: results are emitted as they come. Bare
// names (create, exec, snapshot, …) stand for one sandbox, held in memory, with
// 1,000 dirty files where their number matters (100 for peek); other
// conditions have names of their own. A rate or size carries value and unit.
package bench
