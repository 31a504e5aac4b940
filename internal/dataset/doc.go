// Package dataset makes training data and figures of jobs: rows of finished
// trials with their verdict, in the chat formats that trainers read, filtered
// by an expression over a row's fields.
//
// It reads what a job's directory holds and judges nothing anew. What a format
// cannot hold is counted in each row under "lost", never dropped silently.
package dataset
