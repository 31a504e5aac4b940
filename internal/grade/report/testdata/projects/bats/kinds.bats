# Every kind of result that bats has.
@test "passes" { echo "ok 1 passes"; }
@test "fails" { [ 1 -eq 2 ]; }
@test "skipped" { skip "not here"; }
@test "names: 雪 # a hash" { true; }
@test "prints to the stream" { echo "# a comment" >&3; }
