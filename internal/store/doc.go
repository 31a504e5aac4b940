// Package store keeps a job directory: the only truth about a job.
//
// The layout is Harbor's, with an append-only events.ndjson beside it and
// assay's own things in dot directories, so that Harbor reads our jobs and we
// read Harbor's. One writer holds the lock ([Create], [Open]); readers ([Read],
// [Follow], [List]) need none and never crash on what they find: what is too
// large, linked, misnamed or broken becomes a [Finding].
//
// Invariants: a trial.finished event stands only after its result.json is
// durable and names the digest of its bytes; an attempt that was begun is
// never overwritten or deleted, only moved below .attempts; seq counts 1, 2,
// 3, … without gaps. The package starts no trial, judges nothing and never
// follows a link.
package store
