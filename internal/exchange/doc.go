// Package exchange reads and writes other people's records and results:
// SWE-bench's rows, predictions, reports and run summaries, mini-swe-agent's
// and EvalPlus's predictions, JUnit XML and CSV of a job.
//
// A file whose form is fixed comes out byte for byte as it went in: items keep
// their own bytes, and a file keeps what stands between them. What is read is
// hostile: sizes and counts are capped, and every complaint names file, line
// and remedy. It runs nothing, decides no verdict, and touches nothing but the
// files it is told to read.
package exchange
