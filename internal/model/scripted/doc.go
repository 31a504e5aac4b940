// Package scripted is a model server without a model: an [http.Handler] that
// answers in all four dialects from a file of turns, with every fault that a
// server can have. It is a provider for users (-m scripted:FILE), who try an
// agent, a task or a whole job without a model, and the counterpart of tests.
//
// Its wire forms are written by hand and share nothing with the codecs of its
// sibling rooms, so that a mistake in one shows against the other.
//
// A file says what the model does in general words (bash, write, submit), and
// the server maps them onto whatever tools a request offers. Which turn is due
// is found from the request alone: answers carry their place in the ids of
// their calls, or are known again by their text. So any number of clients may
// ask at once, and a retry gets what it asked for the first time.
//
// It never keeps a credential anywhere but in the log of requests that tests
// read, and never asks anything of a network.
package scripted
