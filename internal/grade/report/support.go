package report

import _ "embed"

//go:embed support/assay_pytest.py
var supportPytest []byte

//go:embed support/assay_unittest.py
var supportUnittest []byte

//go:embed support/assay_mocha.cjs
var supportMocha []byte

//go:embed support/assay_node.mjs
var supportNode []byte

// Support is the file that makes a format's runner write its report, where the
// runner cannot by itself: a plan places it below its tests/ and names it in
// its command. ok is false where the runner needs none.
func Support(f Format) (name string, data []byte, ok bool) {
	switch f {
	case "pytest-log":
		return "assay_pytest.py", supportPytest, true
	case "unittest", "django":
		return "assay_unittest.py", supportUnittest, true
	case "mocha-log":
		return "assay_mocha.cjs", supportMocha, true
	case "node-test":
		return "assay_node.mjs", supportNode, true
	}
	return "", nil, false
}
