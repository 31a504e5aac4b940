package mutate

import "assay/internal/syntax"

// operator is one kind of mistake. At a node it puts each way to make it
// there; what does not parse is thrown away later.
type operator struct {
	name   string
	weight int // how often people make it, and how hard it is to see; 0: rarely
	at     func(f *file, n *syntax.Node, put func(...edit))
}

// operators is the table of mistakes. The names of SWE-smith's operators stand
// behind those that cover them.
func operators() []operator {
	return []operator{
		// Comparisons and logic.
		{"wrong-boundary", 10, wrongBoundary},          // operator change within a family
		{"wrong-direction", 2, wrongDirection},         // flip operator
		{"wrong-equality", 2, wrongEquality},           // flip operator
		{"wrong-connective", 7, wrongConnective},       // flip operator
		{"forgotten-condition", 9, forgottenCondition}, // short circuit removed
		{"missing-negation", 6, missingNegation},       // bool negate
		{"inverted-condition", 2, invertedCondition},   // invert if
		{"weak-null-check", 9, weakNullCheck},          // remove null check
		{"found-at-zero", 6, foundAtZero},
		{"narrow-type", 6, narrowType},
		// Arithmetic and constants.
		{"wrong-arithmetic", 4, wrongArithmetic}, // operator change within a family
		{"swapped-operands", 3, swappedOperands}, // swap operands
		{"broken-chain", 1, brokenChain},         // break expression chains
		{"off-by-one", 9, offByOne},              // off by one
		{"wrong-constant", 1, wrongConstant},     // change constant
		{"wrong-boolean", 5, wrongBoolean},       // bool negate
		{"wrong-default", 6, wrongDefault},
		{"wrong-separator", 1, wrongSeparator}, // string literal
		{"wrong-key", 2, wrongKey},             // string typo
		{"wrong-pattern", 6, wrongPattern},
		{"wrong-member", 4, wrongMember},
		// Control flow.
		{"missing-guard", 9, missingGuard},               // remove conditional, drop guard
		{"removed-conditional", 3, removedConditional},   // remove conditional
		{"unconditional-body", 3, unconditionalBody},     // remove conditional
		{"missing-case", 6, missingCase},                 //
		{"missing-else", 4, missingElse},                 //
		{"swapped-branches", 1, swappedBranches},         // invert if/else
		{"wrong-exit", 4, wrongExit},                     // break/continue
		{"missing-exit", 5, missingExit},                 //
		{"return-in-loop", 4, returnInLoop},              //
		{"once-only", 3, onceOnly},                       //
		{"removed-loop", 0, removedLoop},                 // remove loop
		{"removed-wrapper", 3, removedWrapper},           // remove with, try, try/catch
		{"swapped-ternary", 3, swappedTernary},           // ternary swap
		{"removed-ternary", 4, removedTernary},           // remove ternary
		{"wrong-exception", 4, wrongException},           //
		{"narrow-exception", 6, narrowException},         //
		{"swallowed-error", 5, swallowedError},           //
		{"missing-return", 4, missingReturn},             //
		{"returned-nothing", 0, returnedNothing},         // return null
		{"missing-assignment", 7, missingAssignment},     // remove assignment
		{"stale-state", 8, staleState},                   // remove assignment
		{"missing-reassignment", 6, missingReassignment}, // remove assignment
		{"lost-result", 6, lostResult},
		{"missing-call", 5, missingCall},
		{"wrong-update", 5, wrongUpdate},               // augmented-assignment swap
		{"shuffled-statements", 3, shuffledStatements}, // shuffle lines
		// Values and names.
		{"lost-normalisation", 6, lostNormalisation}, // strip bang, strip presence
		{"lost-conversion", 4, lostConversion},
		{"missing-copy", 8, missingCopy},
		{"lost-fallback", 7, lostFallback}, // drop || default, drop &.
		{"missing-await", 10, missingAwait},
		{"confused-method", 8, confusedMethod},
		{"swapped-arguments", 5, swappedArguments}, // argument swap
		{"swapped-values", 3, swappedValues},
		{"forgotten-argument", 7, forgottenArgument},
		{"wrong-variable", 6, wrongVariable},
		{"wrong-attribute", 5, wrongAttribute},
		{"swapped-tuple", 3, swappedTuple},
		// Classes.
		{"lost-base", 0, lostBase},               // remove parent class, remove interface
		{"lost-method", 1, lostMethod},           // remove methods
		{"shuffled-methods", 0, shuffledMethods}, // shuffle methods
		{"lost-decorator", 2, lostDecorator},
	}
}
