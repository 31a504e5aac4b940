package mutate

import (
	"strings"

	"assay/internal/syntax"
)

// role is what a kind of node does, whatever its grammar calls it.
type role uint8

const (
	noRole  role = iota
	skipped      // nothing below it is touched: imports, types, attributes
	comment
	function
	class
	block // its named children are statements
	ifBranch
	elseBranch
	loop
	while
	caseBranch
	returning
	throwing
	breaking
	continuing
	trying
	catching
	using // with a resource: "with", try-with-resources
	call
	arguments
	keyword // argument with a name
	binary
	unary
	ternary
	awaiting
	assign
	augmented
	declare
	expression // statement
	member
	subscript
	slice
	tuple
	name
	integer
	text
	regex
	truth // true and false
	null
	parameters
	defaulted // parameter with a default value
	wrapped   // in parentheses
)

// shape is how a language writes what operators change. A further language is
// a further table.
type shape struct {
	roles    map[string]role
	not      string // before an operand
	and, or  []string
	yes, no  string   // literals
	nothing  []string // literals, the usual one first
	indented bool     // blocks are indented and not in braces
	loose    bool     // anything can be a condition, and a function may return nothing
	equal    map[string]string
	methods  [][2]string // that are mistaken for each other
	drops    []string    // methods that make a value regular: forgetting one goes unseen
	converts []string    // functions of one argument, of which the same is true
	copies   []string    // methods and functions that copy
	errors   [][2]string // classes that are mistaken for each other
	patterns []string    // functions whose first string is a regular expression
	quiet    []string    // calls that no test looks at
	swapless []string    // functions whose arguments nobody swaps
	self     string      // the object itself
}

func pairs(s string) [][2]string {
	var out [][2]string
	for _, p := range strings.Fields(s) {
		a, b, ok := strings.Cut(p, "/")
		if ok {
			out = append(out, [2]string{a, b})
		}
	}
	return out
}

func roles(table string) map[string]role {
	names := map[string]role{
		"skip": skipped, "comment": comment, "function": function, "class": class, "block": block, "if": ifBranch, "else": elseBranch,
		"loop": loop, "while": while, "case": caseBranch, "return": returning, "throw": throwing, "break": breaking,
		"continue": continuing, "try": trying, "catch": catching, "with": using, "call": call, "arguments": arguments, "keyword": keyword,
		"binary": binary, "unary": unary, "ternary": ternary, "await": awaiting, "assign": assign, "augmented": augmented,
		"declare": declare, "expression": expression, "member": member, "subscript": subscript, "slice": slice, "tuple": tuple,
		"name": name, "integer": integer, "text": text, "regex": regex, "truth": truth, "null": null, "parameters": parameters,
		"defaulted": defaulted, "wrapped": wrapped,
	}
	out := map[string]role{}
	for line := range strings.Lines(table) {
		r, kinds, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok {
			for _, k := range strings.Fields(kinds) {
				out[k] = names[r]
			}
		}
	}
	return out
}

// shapeOf is the table of a language; nil: there is none.
func shapeOf(lang syntax.Language) *shape {
	switch lang {
	case syntax.Python:
		return pythonShape()
	case syntax.JavaScript, syntax.TypeScript, syntax.TSX:
		return scriptShape()
	case syntax.Go:
		return goShape()
	case syntax.Rust:
		return rustShape()
	case syntax.Java:
		return javaShape()
	case syntax.C, syntax.CPP:
		return cShape()
	}
	return nil
}

func pythonShape() *shape {
	return &shape{
		roles: roles(`
			skip: import_statement import_from_statement future_import_statement type decorator assert_statement global_statement nonlocal_statement type_alias_statement
			comment: comment
			function: function_definition
			class: class_definition
			block: block
			if: if_statement elif_clause
			else: else_clause
			loop: for_statement
			while: while_statement
			case: case_clause
			return: return_statement
			throw: raise_statement
			break: break_statement
			continue: continue_statement
			try: try_statement
			catch: except_clause
			with: with_statement
			call: call
			arguments: argument_list
			keyword: keyword_argument
			binary: binary_operator boolean_operator comparison_operator
			unary: not_operator
			ternary: conditional_expression
			await: await
			assign: assignment
			augmented: augmented_assignment
			expression: expression_statement
			member: attribute
			subscript: subscript
			slice: slice
			tuple: tuple expression_list pattern_list
			name: identifier
			integer: integer
			text: string
			truth: true false
			null: none
			parameters: parameters
			defaulted: default_parameter typed_default_parameter
			wrapped: parenthesized_expression`),
		not: "not ", and: []string{"and"}, or: []string{"or"}, yes: "True", no: "False", nothing: []string{"None"}, indented: true, loose: true,
		equal: map[string]string{"==": "!=", "!=": "==", "is": "is not", "is not": "is", "in": "not in", "not in": "in"},
		methods: pairs(`startswith/endswith append/extend find/rfind index/rindex split/rsplit partition/rpartition lstrip/rstrip strip/lstrip strip/rstrip
			lower/upper min/max any/all floor/ceil union/intersection isdigit/isalnum isupper/islower popleft/pop appendleft/append match/search
			match/fullmatch issubset/issuperset rjust/ljust exists/isfile isfile/isdir utcnow/now dirname/basename hexdigest/digest keys/values quote/quote_plus
			insert/append isalpha/isalnum isdigit/isdecimal setdefault/get update/setdefault title/capitalize b64encode/urlsafe_b64encode b64decode/urlsafe_b64decode
			sort/reverse get_event_loop/new_event_loop total_seconds/seconds islice/takewhile wait/clear set/clear read/readline`),
		drops:    strings.Fields("strip lstrip rstrip lower upper casefold title capitalize resolve absolute expanduser normalize splitlines"),
		converts: strings.Fields("int str float sorted bool bytes abs reversed unique escape text_type want_bytes"),
		copies:   strings.Fields("copy deepcopy list dict set tuple"),
		errors: pairs(`ValueError/TypeError KeyError/AttributeError KeyError/IndexError IndexError/KeyError TypeError/ValueError AttributeError/KeyError
			RuntimeError/ValueError OSError/ValueError NotImplementedError/RuntimeError StopIteration/IndexError UnicodeDecodeError/UnicodeEncodeError
			UnicodeEncodeError/UnicodeDecodeError ImportError/AttributeError LookupError/KeyError FileNotFoundError/PermissionError Exception/ValueError`),
		patterns: strings.Fields("re.compile re.match re.search re.sub re.split re.findall re.finditer re.fullmatch compile"),
		quiet:    strings.Fields("print warn debug info warning error exception log"),
		swapless: strings.Fields("isinstance issubclass getattr setattr hasattr range super print cast TypeVar namedtuple max min zip"),
		self:     "self",
	}
}

func scriptShape() *shape {
	return &shape{
		roles: roles(`
			skip: import_statement type_annotation type_arguments type_parameters interface_declaration type_alias_declaration enum_declaration ambient_declaration decorator abstract_class_declaration export_clause
			comment: comment
			function: function_declaration method_definition arrow_function function_expression generator_function_declaration generator_function
			class: class_declaration class
			block: statement_block
			if: if_statement
			else: else_clause
			loop: for_statement for_in_statement
			while: while_statement do_statement
			case: switch_case
			return: return_statement
			throw: throw_statement
			break: break_statement
			continue: continue_statement
			try: try_statement
			catch: catch_clause
			call: call_expression new_expression
			arguments: arguments
			keyword: pair
			binary: binary_expression
			unary: unary_expression
			ternary: ternary_expression
			await: await_expression
			assign: assignment_expression
			augmented: augmented_assignment_expression
			declare: lexical_declaration variable_declaration
			expression: expression_statement
			member: member_expression
			subscript: subscript_expression
			tuple: array
			name: identifier
			integer: number
			text: string
			regex: regex
			truth: true false
			null: null undefined
			parameters: formal_parameters
			defaulted: assignment_pattern
			wrapped: parenthesized_expression`),
		not: "!", and: []string{"&&"}, or: []string{"||"}, yes: "true", no: "false", nothing: []string{"null", "undefined"}, loose: true,
		equal: map[string]string{"==": "!=", "!=": "==", "===": "!==", "!==": "==="},
		methods: pairs(`startsWith/endsWith indexOf/lastIndexOf push/unshift pop/shift slice/splice slice/substring some/every toLowerCase/toUpperCase
			trimStart/trimEnd trim/trimStart trim/trimEnd padStart/padEnd floor/ceil floor/round min/max includes/startsWith map/forEach apply/call parseInt/parseFloat
			encodeURIComponent/encodeURI decodeURIComponent/decodeURI keys/values entries/values has/get set/add on/once addListener/once replace/replaceAll
			shift/pop unshift/push concat/push find/findLast filter/some charAt/charCodeAt first/last before/after prepend/append nextTick/setImmediate test/exec`),
		drops:    strings.Fields("trim trimStart trimEnd toLowerCase toUpperCase reverse sort filter normalize toString flat"),
		converts: strings.Fields("String Number Boolean parseInt parseFloat encodeURIComponent decodeURIComponent"),
		copies:   strings.Fields("slice concat Array.from structuredClone Object.assign"),
		errors:   pairs(`TypeError/RangeError RangeError/TypeError Error/TypeError TypeError/Error SyntaxError/TypeError ReferenceError/TypeError`),
		patterns: strings.Fields("RegExp"),
		quiet:    strings.Fields("log debug warn info error deprecate emitWarning"),
		swapless: strings.Fields("defineProperty require max min setTimeout addEventListener"),
		self:     "this",
	}
}

func goShape() *shape {
	return &shape{
		roles: roles(`
			skip: import_declaration package_clause type_declaration const_declaration parameter_list type_arguments
			comment: comment
			function: function_declaration method_declaration func_literal
			block: statement_list
			if: if_statement
			loop: for_statement
			case: expression_case type_case communication_case
			return: return_statement
			break: break_statement
			continue: continue_statement
			call: call_expression
			arguments: argument_list
			keyword: keyed_element
			binary: binary_expression
			unary: unary_expression
			assign: assignment_statement
			declare: short_var_declaration var_declaration
			expression: expression_statement inc_statement dec_statement defer_statement
			member: selector_expression
			subscript: index_expression
			slice: slice_expression
			tuple: expression_list
			name: identifier
			integer: int_literal
			text: interpreted_string_literal raw_string_literal
			truth: true false
			null: nil
			wrapped: parenthesized_expression`),
		not: "!", and: []string{"&&"}, or: []string{"||"}, yes: "true", no: "false", nothing: []string{"nil"},
		equal: map[string]string{"==": "!=", "!=": "=="},
		methods: pairs(`HasPrefix/HasSuffix TrimPrefix/TrimLeft TrimSuffix/TrimRight TrimLeft/TrimRight TrimLeft/TrimPrefix TrimRight/TrimSuffix Index/LastIndex
			IndexByte/LastIndexByte ToLower/ToUpper Contains/HasPrefix Before/After Floor/Ceil Min/Max IsUpper/IsLower IsDigit/IsLetter PathEscape/QueryEscape
			PathUnescape/QueryUnescape Add/Set Set/Add Base/Dir Fields/Split SplitN/SplitAfterN Less/Equal First/Last Prev/Next IsNil/IsZero Print/Println
			EscapedPath/RequestURI MatchString/FindString IsLetter/IsDigit ContainsAny/Contains`),
		drops:    strings.Fields("ToLower ToUpper TrimSpace Clean"),
		converts: strings.Fields("strings.TrimSpace strings.ToLower strings.ToUpper path.Clean filepath.Clean filepath.ToSlash url.PathEscape url.QueryEscape bytes.TrimSpace sort.Strings"),
		copies:   strings.Fields("slices.Clone maps.Clone bytes.Clone"),
		patterns: strings.Fields("regexp.MustCompile regexp.Compile"),
		quiet:    strings.Fields("Print Printf Println Debug Debugf Log Logf"),
		swapless: strings.Fields("make append copy new panic Errorf Sprintf Fprintf Printf Fprintln Fprint Join"),
		self:     "",
	}
}

func rustShape() *shape {
	return &shape{
		roles: roles(`
			skip: use_declaration attribute_item inner_attribute_item macro_definition type_arguments type_parameters where_clause type_item extern_crate_declaration trait_bounds lifetime const_item static_item struct_item enum_item visibility_modifier macro_invocation match_pattern let_condition
			comment: line_comment block_comment
			function: function_item closure_expression
			class: impl_item trait_item
			block: block
			if: if_expression
			else: else_clause
			loop: for_expression loop_expression
			while: while_expression
			case: match_arm
			return: return_expression
			break: break_expression
			continue: continue_expression
			call: call_expression
			arguments: arguments
			keyword: field_initializer
			binary: binary_expression
			unary: unary_expression
			await: await_expression
			assign: assignment_expression
			augmented: compound_assignment_expr
			declare: let_declaration
			expression: expression_statement
			member: field_expression
			subscript: index_expression
			slice: range_expression
			tuple: tuple_expression
			name: identifier
			integer: integer_literal
			text: string_literal raw_string_literal
			truth: boolean_literal
			parameters: parameters
			wrapped: parenthesized_expression`),
		not: "!", and: []string{"&&"}, or: []string{"||"}, yes: "true", no: "false",
		equal: map[string]string{"==": "!=", "!=": "=="},
		methods: pairs(`starts_with/ends_with min/max find/rfind trim_start/trim_end trim/trim_start trim/trim_end floor/ceil any/all first/last to_lowercase/to_uppercase
			push_front/push_back pop_front/pop_back wrapping_add/saturating_add is_some/is_none is_ok/is_err skip/take is_ascii_digit/is_ascii_alphanumeric
			split/rsplit as_secs/as_millis is_alphabetic/is_alphanumeric next/next_back skip_while/take_while checked_add/checked_sub filter/skip_while
			wrapping_sub/wrapping_add saturating_sub/wrapping_sub last/first trim_start_matches/trim_end_matches before/after Less/Greater is_lowercase/is_uppercase
			subsec_nanos/subsec_micros as_nanos/as_micros leading_zeros/trailing_zeros and/or ok_or/or`),
		drops:    strings.Fields("trim trim_start trim_end to_lowercase to_uppercase rev sort unwrap_or_default abs"),
		converts: strings.Fields(""),
		copies:   strings.Fields(""),
		errors:   nil,
		patterns: strings.Fields("Regex::new"),
		quiet:    strings.Fields("debug info warn error"),
		swapless: strings.Fields(""),
		self:     "self",
	}
}

func javaShape() *shape {
	return &shape{
		roles: roles(`
			skip: import_declaration package_declaration annotation marker_annotation modifiers type_arguments type_parameters formal_parameters enum_constant assert_statement throws
			comment: line_comment block_comment
			function: method_declaration constructor_declaration lambda_expression
			class: class_declaration enum_declaration
			block: block constructor_body switch_block_statement_group
			if: if_statement
			loop: for_statement enhanced_for_statement
			while: while_statement do_statement
			case: switch_block_statement_group switch_rule
			return: return_statement
			throw: throw_statement
			break: break_statement
			continue: continue_statement
			try: try_statement
			catch: catch_clause
			with: try_with_resources_statement
			call: method_invocation object_creation_expression explicit_constructor_invocation
			arguments: argument_list
			binary: binary_expression
			unary: unary_expression
			ternary: ternary_expression
			assign: assignment_expression
			declare: local_variable_declaration
			expression: expression_statement
			member: field_access
			subscript: array_access
			name: identifier
			integer: decimal_integer_literal
			text: string_literal
			truth: true false
			null: null_literal
			wrapped: parenthesized_expression`),
		not: "!", and: []string{"&&"}, or: []string{"||"}, yes: "true", no: "false", nothing: []string{"null"},
		equal: map[string]string{"==": "!=", "!=": "=="},
		methods: pairs(`startsWith/endsWith indexOf/lastIndexOf toLowerCase/toUpperCase min/max floor/ceil floor/round anyMatch/allMatch addFirst/addLast peekFirst/peekLast
			pollFirst/pollLast containsKey/containsValue equals/equalsIgnoreCase isBefore/isAfter isDigit/isLetter isDigit/isLetterOrDigit isUpperCase/isLowerCase
			first/last isBlank/isEmpty keySet/values put/putIfAbsent trim/strip substring/subSequence removeFirst/removeLast getFirst/getLast prepend/append
			nextElementSibling/previousElementSibling firstChild/lastChild before/after offer/add hasNext/hasPrevious isWhitespace/isSpaceChar getOrDefault/get`),
		drops:    strings.Fields("trim strip toLowerCase toUpperCase normalize intern"),
		converts: strings.Fields("Math.abs String.valueOf"),
		copies:   strings.Fields("clone"),
		errors: pairs(`IllegalArgumentException/IllegalStateException IllegalStateException/IllegalArgumentException NullPointerException/IllegalArgumentException
			IndexOutOfBoundsException/IllegalArgumentException NoSuchElementException/IllegalStateException UnsupportedOperationException/IllegalStateException
			NumberFormatException/NullPointerException IOException/RuntimeException`),
		patterns: strings.Fields("Pattern.compile"),
		quiet:    strings.Fields("println print printf debug info warn error log fine"),
		swapless: strings.Fields("format max min printf checkArgument"),
		self:     "this",
	}
}

func cShape() *shape {
	return &shape{
		roles: roles(`
			skip: preproc_include preproc_def preproc_function_def preproc_ifdef_directive type_definition struct_specifier enum_specifier union_specifier parameter_list template_parameter_list attribute_specifier using_declaration
			comment: comment
			function: function_definition lambda_expression
			block: compound_statement
			if: if_statement
			else: else_clause
			loop: for_statement for_range_loop
			while: while_statement do_statement
			case: case_statement
			return: return_statement
			throw: throw_statement
			break: break_statement
			continue: continue_statement
			call: call_expression
			arguments: argument_list
			binary: binary_expression
			unary: unary_expression
			ternary: conditional_expression
			assign: assignment_expression
			declare: declaration
			expression: expression_statement
			member: field_expression
			subscript: subscript_expression
			name: identifier
			integer: number_literal
			text: string_literal
			truth: true false
			null: null
			wrapped: parenthesized_expression`),
		not: "!", and: []string{"&&"}, or: []string{"||"}, yes: "true", no: "false", nothing: []string{"NULL", "nullptr"},
		equal: map[string]string{"==": "!=", "!=": "=="},
		methods: pairs(`memcpy/memmove strchr/strrchr tolower/toupper isdigit/isalnum isspace/isblank islower/isupper floor/ceil fmin/fmax isalpha/isalnum
			first_child/last_child next_sibling/previous_sibling begin/end push_back/push_front front/back find/rfind strcmp/strcasecmp`),
		drops:    strings.Fields(""),
		converts: strings.Fields("tolower toupper abs strdup"),
		copies:   strings.Fields("strdup"),
		quiet:    strings.Fields("printf fprintf puts assert perror debug"),
		swapless: strings.Fields("printf fprintf snprintf sizeof"),
		self:     "",
	}
}
