package cli

type modelCmd struct {
	Serve modelServeCmd `cmd:"" help:"Serve a model without a model, from a script, to try agents with."`
}
