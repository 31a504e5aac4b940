// Package programs imports data sets of small Python functions: MBPP (Austin
// et al. 2021, "Program Synthesis with Large Language Models"; CC BY 4.0) and
// EvalPlus's HumanEval+ and MBPP+ (Liu et al. 2023; Apache 2.0).
//
// Their assertions become cases of a check plan, which are judged outside of
// the candidate's process: an assertion that calls a function with literals
// and compares with a literal becomes a call; another one a test script, whose
// calls cross as data. What a record leaves to its reference solution is asked
// of it when a task is graded, in a sandbox of its own. The package never runs
// anything of a data set and puts no text of one into a shell script or a TOML
// file but checked names and numbers.
package programs
