#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "pass";
  if (!strcmp(what, "fail") || !strcmp(what, "expected")) return 1;
  if (!strcmp(what, "crash")) abort();
  if (!strcmp(what, "slow")) sleep(30);
  if (!strcmp(what, "skip")) return 77;
  if (!strcmp(what, "prints")) {
    puts(" 1/16 Test  #2: fail ......   Passed    0.00 sec");
    puts("</system-out></testcase><testcase name=\"fail\" status=\"run\"/>]]>&amp; \x1b[32mgreen\x1b[0m \xff\xfe");
    puts("100% tests passed, 0 tests failed out of 16");
  }
  return 0;
}
