// Package dockerfile builds an image from a Dockerfile, with the official
// grammar but without a daemon: BuildKit's parser reads it, layers of the
// store hold what comes out, and RUN happens in a sandbox that the caller's
// backend makes.
//
// It knows FROM an image of the store or scratch, COPY from the context, RUN,
// ENV, WORKDIR, ARG, USER, LABEL, CMD, ENTRYPOINT and EXPOSE. Every other
// instruction, flag or form is refused before anything runs, by file, line and
// name and with what to write instead: a Dockerfile is never half understood.
//
// Invariants:
//   - Nothing is fetched. What the store does not hold is an
//     *image.MissingError.
//   - The context is hostile: no link leads out of it, and no program of it
//     runs outside the sandbox.
//   - Equal steps on equal stacks give the layer of the first time, by a key
//     of parent, instruction, variables, content and user id mode.
package dockerfile
