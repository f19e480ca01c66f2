// Linked into every program of a sanitized build. LLVM's headers poison the
// memory that a BumpPtrAllocator holds but has not given out; Debian's
// libraries, which are not instrumented, give it out without unpoisoning it.

extern "C" const char *__asan_default_options() {
  return "allow_user_poisoning=0";
}
