// Package program judges plain programs and functions case by case: what a
// program prints, leaves and ends with, what a function returns or raises,
// which rows a query gives.
//
// The assertions are this process. A case's input goes into a sandbox, an
// answer comes back as typed plain data ([Value]), and the comparison happens
// here; what is expected never enters a sandbox that holds the candidate. The
// driver that calls a function there shares the process with it and is
// believed nothing: whoever forges its messages can only give another answer.
// Where the expected value is what a reference returns, the reference runs in
// a sandbox without the candidate, and so does a test script, whose calls are
// carried over as data.
//
// Every case starts from the same frozen tree with no process alive. The
// package never compares by a method of the candidate's, never trusts a
// length, a depth or a count that comes from a sandbox, and never looks at who
// made the candidate.
package program
