// Package stats is the arithmetic of results: pass@k, intervals, quantiles,
// tallies of endings, and the smallest difference a planned sample can show.
//
// It is pure: it reads no file and no clock, draws no random number, keeps no
// state, and imports nothing of assay's. Three rules hold throughout. A number
// that cannot be known (a rate of nothing, pass@k of fewer than k attempts) is
// reported as not ok, never as zero. Endings that say nothing about an agent
// (invalid, infra, cancelled) stand in no denominator. Every rate can be had
// with its interval, at a confidence of 95 % unless a function says otherwise.
package stats
