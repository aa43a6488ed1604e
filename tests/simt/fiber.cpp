#include "tests/simt/fiber.h"

#include <sys/mman.h>

#include <new>

#if defined(__x86_64__) && !defined(VARVE_FIBERS_UCONTEXT)
#define VARVE_FIBERS_JUMP 1  // some hundred times faster than ucontext, which asks the kernel each time
#else
#include <ucontext.h>
#endif

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define VARVE_FIBERS_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef VARVE_FIBERS_JUMP
// Keeps what a callee must keep and goes on where `to` was left. The floating-point control words are not touched:
// kernels change neither rounding nor masks.
extern "C" void varve_simt_jump(void** from, void* to);
asm(R"(
.text
.type varve_simt_jump,@function
varve_simt_jump:
  endbr64
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size varve_simt_jump, .-varve_simt_jump
)");
#endif

namespace varve::simt {

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kStack = 128 * 1024;  // its lowest page is not mapped for use: an overflow ends the program there

#ifdef VARVE_FIBERS_ASAN
// The fiber that was left last: what the sanitizer tells on arrival belongs to it.
thread_local const void** left_stack = nullptr;
thread_local size_t* left_size = nullptr;
#endif

}  // namespace

Fiber::~Fiber() {
  if (memory_ != nullptr) {
    munmap(memory_, kStack);
  }
#ifndef VARVE_FIBERS_JUMP
  delete static_cast<ucontext_t*>(context_);
#endif
}

void Fiber::start(void (*entry)()) {
  if (memory_ == nullptr) {
    void* memory = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      throw std::bad_alloc();
    }
    mprotect(memory, kPage, PROT_NONE);
    memory_ = static_cast<std::byte*>(memory);
    stack_ = memory_ + kPage;
    stack_size_ = kStack - kPage;
  }
#ifdef VARVE_FIBERS_ASAN
  __asan_unpoison_memory_region(stack_, stack_size_);
#endif
  fake_stack_ = nullptr;
#ifdef VARVE_FIBERS_JUMP
  // As varve_simt_jump leaves a stack: six registers and where to return to; after that, 8 bytes past a multiple of 16.
  auto** top = reinterpret_cast<void**>(memory_ + kStack - 64);
  for (size_t i = 0; i < 8; ++i) {
    top[i] = nullptr;
  }
  top[6] = reinterpret_cast<void*>(entry);
  context_ = top;
#else
  if (context_ == nullptr) {
    context_ = new ucontext_t;
  }
  auto* context = static_cast<ucontext_t*>(context_);
  getcontext(context);
  context->uc_stack.ss_sp = memory_ + kPage;
  context->uc_stack.ss_size = stack_size_;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
#endif
}

void Fiber::change(Fiber& from, Fiber& to, [[maybe_unused]] bool for_good) {
#ifdef VARVE_FIBERS_ASAN
  left_stack = &from.stack_;
  left_size = &from.stack_size_;
  __sanitizer_start_switch_fiber(for_good ? nullptr : &from.fake_stack_, to.stack_, to.stack_size_);
#endif
#ifdef VARVE_FIBERS_JUMP
  varve_simt_jump(&from.context_, to.context_);
#else
  if (from.context_ == nullptr) {
    from.context_ = new ucontext_t;
  }
  swapcontext(static_cast<ucontext_t*>(from.context_), static_cast<ucontext_t*>(to.context_));
#endif
#ifdef VARVE_FIBERS_ASAN
  __sanitizer_finish_switch_fiber(from.fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::entered() {
#ifdef VARVE_FIBERS_ASAN
  __sanitizer_finish_switch_fiber(nullptr, left_stack, left_size);
#endif
}

}  // namespace varve::simt
