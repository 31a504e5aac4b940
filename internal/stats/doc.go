// Package stats is the arithmetic of results: pass@k, intervals, paired
// comparisons, power, the psychometrics of tasks, quantiles and tallies of
// endings.
//
// It is pure: it reads no file and no clock, keeps no state, and imports
// nothing of assay's; what resamples draws from a seed that stands in the code,
// so that the same input always gives the same output. Three rules hold
// throughout. A number that cannot be known (a rate of nothing, pass@k of fewer
// than k attempts) is reported as not ok, never as zero. Endings that say
// nothing about an agent (invalid, infra, cancelled) stand in no denominator.
// Every rate can be had with its interval, at a confidence of 95 % unless a
// function says otherwise.
//
// The unit of every interval over tasks is the task, never the attempt:
// attempts at one task resemble each other. Where tasks come from few
// repositories, the unit may be the repository; see [Paired].
package stats
