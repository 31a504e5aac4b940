package cli

type repoCmd struct {
	AST      repoASTCmd      `cmd:"" name:"ast" help:"Print a source file's syntax tree."`
	Grammars repoGrammarsCmd `cmd:"" help:"List the languages whose syntax is read, and fetch their grammars."`
}
