// Package setup makes a repository ready: it copies or clones the sources,
// recognises what they are made of, writes a recipe, builds a healthy image by
// it, and finds a way in which the suite passes there without a network.
//
// What it knows of languages is data, a table each below tables/. When a step
// fails it climbs a ladder of alternatives from the same tables; every attempt
// is recorded, and a failure says what was tried and what to write into the
// recipe. Nothing of a repository runs outside a sandbox, no link leads out of
// its tree, and credentials reach the commands that need them by mounts that no
// layer holds.
package setup
