// Package catalog reads the models file: what each model is called, where it
// answers, what it costs, and where its credential comes from. It connects to
// nothing and holds no credential: it says where one is to be found.
package catalog
