// Package web shows jobs: a static report, live pages on loopback, and tables
// for the terminal.
//
// Everything is made from a job's directory and its events alone, so that a
// live page, a report and a replay cannot disagree. One set of templates makes
// the live pages and the report; style, script and pictures are this package's
// own and embedded, and no page asks anything of another host.
//
// Invariants: whatever an agent or a verifier wrote is hostile. It reaches a
// page only through html/template's escaping, after [Clean] took terminal
// codes and broken UTF-8 out of it and a [Clip] cut it to a stated size; it
// never becomes a link, an attribute name, style or script. Files are opened
// below the job's directory only, never through a link that leaves it, and
// only when they are regular files. Pages work without script; rates never
// stand without their interval and graded/planned beside them; what is unknown
// is shown as unknown, never as zero. This package never writes into a trial's
// directory, never judges and never runs anything.
package web
