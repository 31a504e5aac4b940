// Package mirrors reads how this machine reaches package repositories (its
// certificates, resolver, proxies, and the configuration of apt, pip, uv, npm,
// cargo, Go, Maven and RubyGems).
//
// [Read] only looks; [Settings.AptMirror] is where image bootstrap fetches
// packages, [Settings.Targets] and [Settings.AptRewrite] are what builds reach.
// [Settings.Inherit] says what a sandbox needs besides, as small files and
// variables. The files are made anew from
// the settings that name servers, credentials and trust: a configuration is
// never copied whole, since the rest of it (prefixes, hooks, wrappers, local
// directories) belongs to this machine.
//
// The package never touches the environment or the network itself, never
// writes outside the directory it is given, and never prints a credential: what
// is listed names secrets and leaves their values out.
package mirrors
