#include "tests/simt/simt.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "tests/simt/fiber.h"

namespace varve::simt {

namespace {

constexpr uint64_t kNoValue = 0xdeadbeefdeadbeefU;  // what a shuffle gives that reads a thread outside of its mask
constexpr uint64_t kUnset = 0xcdcdcdcdcdcdcdcdU;
constexpr uint32_t kAll = ~uint32_t{0};

enum class State : uint8_t { ready, waits, done };

struct Thread {
  Fiber fiber;
  unsigned number = 0;  ///< in its block
  State state = State::done;
  Operation operation{};  ///< what it waits in, as all below
  uint32_t mask = 0;
  unsigned source = 0;
  uint64_t value = 0;
  uint64_t result = 0;
  Where where{"", 0};
};

/// Which threads of a warp are in which state, a bit for each.
struct Warp {
  uint32_t exist = 0;
  uint32_t ready = 0;
  uint32_t together = 0;  ///< wait for others of the warp
};

using Threads = std::vector<std::unique_ptr<Thread>>;

/// A launch that runs: one block of threads at a time. Errors found while a thread runs are set first and then given
/// up with, in two steps: nothing on its stack is unwound.
class Launch {
 public:
  Launch(unsigned blocks, Threads threads, const Schedule& schedule, const std::function<void()>& body)
      : blocks_(blocks),
        schedule_(schedule),
        random_(schedule.seed * 0x9e3779b97f4a7c15U | 1),
        body_(body),
        threads_(std::move(threads)),
        warps_((threads_.size() + kWarp - 1) / kWarp) {
    for (unsigned i = 0; i < this->threads(); ++i) {
      warps_[i / kWarp].exist |= 1U << i % kWarp;
      threads_[i]->number = i;
    }
  }
  /// Error text; empty: all went well.
  std::string run();

  Thread& self() { return *running_; }
  unsigned block() const { return block_; }
  unsigned blocks() const { return blocks_; }
  unsigned threads() const { return static_cast<unsigned>(threads_.size()); }
  void* shared() { return shared_.data(); }
  Threads take_threads() { return std::move(threads_); }

  void block_barrier(Where where);
  uint64_t warp_wait(Operation operation, uint32_t mask, uint64_t value, unsigned source, Where where);
  void set_error(std::string what) { error_ = std::move(what); }
  [[noreturn]] void give_up();

 private:
  static void enter();
  void run_block();
  /// Goes on with another thread, or with run_block() where none can.
  void leave(bool for_good = false);
  Thread* next();
  static uint32_t bit(const Thread& thread) { return 1U << thread.number % kWarp; }
  Warp& warp_of(const Thread& thread) { return warps_[thread.number / kWarp]; }
  void set_ready(Thread& thread) {
    thread.state = State::ready;
    warp_of(thread).ready |= bit(thread);
    ++ready_count_;
  }
  void set_unready(Thread& thread, State state) {
    thread.state = state;
    warp_of(thread).ready &= ~bit(thread);
    --ready_count_;
  }
  void complete(uint32_t mask, Operation operation);
  Thread& of_warp(unsigned lane) { return *threads_[running_->number / kWarp * kWarp + lane]; }
  /// What is wrong with the running thread's wait; empty: nothing.
  std::string barrier_fault();
  std::string warp_fault(const Warp& warp);
  uint64_t random() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_ * 0x2545f4914f6cdd1dU >> 32;
  }
  std::string who(const Thread& thread) const { return fmt::format("thread {} of block {}", thread.number, block_); }
  std::string stuck() const;

  unsigned blocks_;
  Schedule schedule_;
  uint64_t random_;
  const std::function<void()>& body_;
  unsigned block_ = 0;
  Fiber main_;
  Threads threads_;
  std::vector<Warp> warps_;
  unsigned ready_count_ = 0;
  unsigned at_barrier_ = 0;
  unsigned alive_ = 0;
  Thread* first_at_barrier_ = nullptr;
  Thread* running_ = nullptr;
  std::string error_;
  alignas(128) std::array<uint64_t, kSharedBytes / sizeof(uint64_t)> shared_{};
};

thread_local Launch* current = nullptr;
thread_local Counts counted;

const char* name(Operation operation) {
  switch (operation) {
    case Operation::block:
      return "__syncthreads";
    case Operation::warp:
      return "__syncwarp";
    case Operation::ballot:
      return "__ballot_sync";
    default:
      return "a shuffle";
  }
}

std::string at(const Where& where) {
  const char* slash = std::strrchr(where.file, '/');
  return fmt::format("{}:{}", slash != nullptr ? slash + 1 : where.file, where.line);
}

std::string waits(const Thread& thread) {
  const std::string mask =
      thread.operation == Operation::block ? std::string() : fmt::format(" with mask {:08x}", thread.mask);
  return fmt::format("{} at {}{}", name(thread.operation), at(thread.where), mask);
}

bool same_place(const Thread& a, const Thread& b) {
  return a.operation == b.operation && a.mask == b.mask && a.where.line == b.where.line &&
         std::strcmp(a.where.file, b.where.file) == 0;
}

void Launch::enter() {
  Fiber::entered();
  Launch& launch = *current;
  bool threw = false;
  try {
    launch.body_();
  } catch (const std::exception& error) {
    threw = true;
    launch.set_error(fmt::format("{} threw: {}", launch.who(launch.self()), error.what()));
  }
  if (threw) {
    launch.give_up();
  }
  Thread& self = launch.self();
  launch.set_unready(self, State::done);
  --launch.alive_;
  if (launch.at_barrier_ > 0) {
    launch.set_error(
        fmt::format("{} ended where others of its block wait in a barrier: {}", launch.who(self), launch.stuck()));
    launch.give_up();
  }
  launch.leave(true);
  __builtin_unreachable();
}

std::string Launch::run() {
  for (unsigned i = 0; i < blocks_ && error_.empty(); ++i) {
    block_ = schedule_.order == Order::forward ? i : blocks_ - 1 - i;
    run_block();
  }
  return std::move(error_);
}

void Launch::run_block() {
  shared_.fill(kUnset);
  alive_ = threads();
  at_barrier_ = ready_count_ = 0;
  for (Warp& warp : warps_) {
    warp.ready = warp.together = 0;
  }
  for (const auto& thread : threads_) {
    thread->fiber.start(enter);
    thread->where = {"", 0};
    set_ready(*thread);
  }
  running_ = nullptr;
  running_ = next();
  ++counted.switches;
  Fiber::change(main_, running_->fiber, false);
  if (error_.empty() && alive_ > 0) {
    error_ = fmt::format("block {} cannot go on: {}", block_, stuck());
  }
}

Thread* Launch::next() {
  if (ready_count_ == 0) {
    return nullptr;
  }
  const auto warps = static_cast<unsigned>(warps_.size());
  const auto thread_of = [&](unsigned warp, unsigned lane) { return threads_[warp * kWarp + lane].get(); };
  if (schedule_.order == Order::shuffled) {
    for (auto warp = static_cast<unsigned>(random() % warps);; warp = (warp + 1) % warps) {
      uint32_t mask = warps_[warp].ready;
      if (mask != 0) {
        for (auto skip = random() % static_cast<unsigned>(__builtin_popcount(mask)); skip > 0; --skip) {
          mask &= mask - 1;
        }
        return thread_of(warp, static_cast<unsigned>(__builtin_ctz(mask)));
      }
    }
  }
  const bool forward = schedule_.order == Order::forward;
  const unsigned first = running_ != nullptr ? running_->number / kWarp : (forward ? 0 : warps - 1);
  for (unsigned i = 0; i < warps; ++i) {
    const unsigned warp = (forward ? first + i : first + warps - i) % warps;
    const uint32_t mask = warps_[warp].ready;
    if (mask != 0) {
      const auto lane = static_cast<unsigned>(forward ? __builtin_ctz(mask) : 31 - __builtin_clz(mask));
      return thread_of(warp, lane);
    }
  }
  return nullptr;
}

void Launch::leave(bool for_good) {
  Thread& from = self();
  Thread* to = next();
  if (to == &from) {
    return;
  }
  ++counted.switches;
  if (to == nullptr) {
    Fiber::change(from.fiber, main_, for_good);
    return;
  }
  running_ = to;
  Fiber::change(from.fiber, to->fiber, for_good);
}

void Launch::give_up() {
  Fiber::change(self().fiber, main_, true);
  __builtin_unreachable();
}

std::string Launch::barrier_fault() {
  const Thread& me = self();
  if (alive_ < threads()) {
    return fmt::format("{} is in {}, and others of its block have ended", who(me), waits(me));
  }
  if (at_barrier_ > 0 && !same_place(me, *first_at_barrier_)) {
    return fmt::format("{} is in {}, thread {} in {}", who(me), waits(me), first_at_barrier_->number,
                       waits(*first_at_barrier_));
  }
  return {};
}

void Launch::block_barrier(Where where) {
  Thread& me = self();
  me.operation = Operation::block;
  me.mask = kAll;
  me.where = where;
  set_error(barrier_fault());
  if (!error_.empty()) {
    give_up();
  }
  set_unready(me, State::waits);
  if (at_barrier_ == 0) {
    first_at_barrier_ = &me;
  }
  if (++at_barrier_ == alive_) {
    ++counted.barriers;
    at_barrier_ = 0;
    for (const auto& thread : threads_) {
      set_ready(*thread);
    }
  }
  leave();
}

void Launch::complete(uint32_t mask, Operation operation) {
  ++counted.collectives;
  uint64_t votes = 0;
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(left));
    votes |= of_warp(lane).value != 0 ? uint64_t{1} << lane : 0;
  }
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    Thread& thread = of_warp(static_cast<unsigned>(__builtin_ctz(left)));
    thread.result = votes;
    if (operation == Operation::shuffle) {
      thread.result = (mask >> thread.source & 1U) != 0 ? of_warp(thread.source).value : kNoValue;
    }
    set_ready(thread);
  }
}

std::string Launch::warp_fault(const Warp& warp) {
  const Thread& me = self();
  if ((me.mask & bit(me)) == 0) {
    return fmt::format("{} is not in its own mask: {}", who(me), waits(me));
  }
  if (const uint32_t missing = me.mask & ~warp.exist; missing != 0) {
    return fmt::format("{} names threads that its warp has not: {}", who(me), waits(me));
  }
  for (uint32_t left = me.mask; alive_ < threads() && left != 0; left &= left - 1) {
    const Thread& other = of_warp(static_cast<unsigned>(__builtin_ctz(left)));
    if (other.state == State::done) {
      return fmt::format("{} waits for thread {}, which has ended: {}", who(me), other.number, waits(me));
    }
  }
  if (const uint32_t others = warp.together & me.mask; others != 0) {
    // One is enough: they were compared with each other.
    const Thread& other = of_warp(static_cast<unsigned>(__builtin_ctz(others)));
    if (!same_place(me, other)) {
      return fmt::format("{} is in {}, thread {} in {}", who(me), waits(me), other.number, waits(other));
    }
  }
  return {};
}

uint64_t Launch::warp_wait(Operation operation, uint32_t mask, uint64_t value, unsigned source, Where where) {
  Thread& me = self();
  me.operation = operation;
  me.mask = mask;
  me.value = value;
  me.source = source;
  me.where = where;
  Warp& warp = warp_of(me);
  set_error(warp_fault(warp));
  if (!error_.empty()) {
    give_up();
  }
  set_unready(me, State::waits);
  warp.together |= bit(me);
  if ((warp.together & mask) == mask) {
    warp.together &= ~mask;
    complete(mask, operation);
  }
  if (me.state != State::ready || schedule_.order == Order::shuffled) {
    leave();
  }
  return me.result;
}

std::string Launch::stuck() const {
  std::string text;
  for (size_t i = 0; i < threads_.size();) {
    const Thread& first = *threads_[i];
    const size_t begin = i;
    const auto alike = [&](const Thread& other) {
      return other.state == first.state && (first.state != State::waits || waits(other) == waits(first));
    };
    while (i < threads_.size() && alike(*threads_[i])) {
      ++i;
    }
    text += fmt::format("{}threads {} to {} {}", begin > 0 ? ", " : "", begin, i - 1,
                        first.state == State::waits  ? "wait in " + waits(first)
                        : first.state == State::done ? "have ended"
                                                     : "could go on");
  }
  return text;
}

}  // namespace

void launch(unsigned blocks, unsigned threads, const Schedule& schedule, const std::function<void()>& body) {
  if (threads == 0 || threads > 1024) {
    throw Error(fmt::format("a block has 1 to 1,024 threads, not {}", threads));
  }
  ++counted.launches;
  static thread_local Threads kept;  // with their stacks
  while (kept.size() < threads) {
    kept.push_back(std::make_unique<Thread>());
  }
  Threads some(std::make_move_iterator(kept.end() - threads), std::make_move_iterator(kept.end()));
  kept.resize(kept.size() - threads);
  std::string error;
  {
    const auto made = std::make_unique<Launch>(blocks, std::move(some), schedule, body);
    current = made.get();
    error = made->run();
    current = nullptr;
    some = made->take_threads();
  }
  std::move(some.begin(), some.end(), std::back_inserter(kept));
  if (!error.empty()) {
    throw Error(error);
  }
}

const Counts& counts() { return counted; }
Index thread_index() { return {current->self().number}; }
Index block_index() { return {current->block()}; }
Index block_size() { return {current->threads()}; }
Index grid_size() { return {current->blocks()}; }
unsigned lane() { return current->self().number % kWarp; }

void* shared_memory(size_t size) {
  if (size > kSharedBytes) {
    current->set_error(fmt::format("a kernel has {} bytes of shared memory, more than {}", size, kSharedBytes));
    current->give_up();
  }
  return current->shared();
}

void block_barrier(Where where) { current->block_barrier(where); }
uint64_t warp_wait(Operation operation, uint32_t mask, uint64_t value, unsigned source, Where where) {
  return current->warp_wait(operation, mask, value, source, where);
}

void out_of_bounds(const char* what, int64_t index, int64_t count) {
  if (current == nullptr) {
    throw Error(fmt::format("element {} of {}, which has {}, outside of a kernel", index, what, count));
  }
  const Thread& self = current->self();
  current->set_error(fmt::format("thread {} of block {} takes element {} of {}, which has {}; its last stop was {}",
                                 self.number, current->block(), index, what, count,
                                 self.where.line == 0 ? "the kernel's start" : at(self.where)));
  current->give_up();
}

}  // namespace varve::simt
