// Package dockerfile builds an image from a Dockerfile, with the official
// grammar but without a daemon: BuildKit's parser reads it, layers of the
// store hold what comes out, and RUN happens in a sandbox that the caller's
// backend makes.
//
// It knows every instruction. Stages that the target does not need are not
// built, others side by side. What cannot be done as BuildKit does it, such as
// git sources, foreign platforms and the host's own network, is refused by
// file, line and name and with what to write instead, before anything runs
// unless a variable hides it until then.
//
// Invariants:
//   - Nothing is fetched but by ADD of a URL, through the caller's Egress. What
//     the store does not hold is an *image.MissingError.
//   - The context is hostile: no link leads out of it, and no program of it
//     runs outside the sandbox.
//   - Equal steps on equal stacks give the layer of the first time, by a key
//     of parent, instruction, variables, content and user id mode. Secrets,
//     cache mounts, proxies and the machine's own settings are in no key and
//     no layer.
package dockerfile
