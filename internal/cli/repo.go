package cli

type repoCmd struct {
	Setup    repoSetupCmd    `cmd:"" help:"Make a repository ready: a healthy image, and a suite whose stable tests are known."`
	Suite    repoSuiteCmd    `cmd:"" help:"Run an environment's suite again and say which tests are stable."`
	Show     repoShowCmd     `cmd:"" help:"Show an environment: its image, its suite, what is wrong with it."`
	AST      repoASTCmd      `cmd:"" name:"ast" help:"Print a source file's syntax tree."`
	Grammars repoGrammarsCmd `cmd:"" help:"List the languages whose syntax is read, and fetch their grammars."`
}
