// For every test program that links RocksDB under the thread sanitizer: the library is the distribution's, not compiled
// for the sanitizer, which therefore sees only half of its locks. Empty without the sanitizer.
#if defined(__SANITIZE_THREAD__)

// NOLINTBEGIN: the sanitizer's own names
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:librocksdb.so\nrace:librocksdb.so\nmutex:librocksdb.so\nrace:rocksdb::\n";
}
// NOLINTEND

#endif
