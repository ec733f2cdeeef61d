// The relay of tests/support/front.h as a program, for the bench: front BACKEND PORT [CA_FILE]; with a file
// it speaks TLS and writes its certificate there.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/front.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "front BACKEND_PORT PORT [CA_FILE]\n");
    return 2;
  }
  const poolmark::test::Front front(static_cast<uint16_t>(std::atoi(argv[1])), argc > 3,
                                    argc > 3 ? argv[3] : "", static_cast<uint16_t>(std::atoi(argv[2])));
  std::printf("listening on %d\n", front.port());
  std::fflush(stdout);
  pause();
}
