// Stacks to switch between within one OS thread: each CUDA thread of an emulated block is one.
#pragma once

#include <cstddef>

namespace varve::simt {

/// A context that can be left and gone on with. Not movable: the machine's stack pointer is kept in it.
class Fiber {
 public:
  /// Of the caller, who has a stack of its own.
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  /// Makes entry() run on this fiber's stack when it is switched to; what ran there before is given up, its frames
  /// without being unwound. `entry` must never return.
  void start(void (*entry)());
  /// Leaves `from`, which is running, for `to`. `for_good`: `from` will be started anew before it runs again.
  static void change(Fiber& from, Fiber& to, bool for_good);
  /// What an entry does first.
  static void entered();

 private:
  void* context_ = nullptr;  ///< stack pointer, or a ucontext_t
  std::byte* memory_ = nullptr;
  const void* stack_ = nullptr;  ///< what of it is used; a caller's own is known to the address sanitizer alone
  size_t stack_size_ = 0;
  void* fake_stack_ = nullptr;  ///< the address sanitizer's
};

}  // namespace varve::simt
