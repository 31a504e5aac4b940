check() { [ "$(cat answer.txt 2>/dev/null)" = 42 ]; }
