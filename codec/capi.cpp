#include "codec/capi.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#include "codec/container.h"

struct varve_container {
  varve::codec::Container content;
};

namespace {

using namespace varve;         // NOLINT: this file is the border
using namespace varve::codec;  // NOLINT

thread_local std::string last_error;

int fail(const Error& error) noexcept {
  try {
    last_error = error.text;
  } catch (...) {
    last_error.clear();
  }
  return error.code > 0 ? error.code : EIO;
}

/// Nothing that is thrown passes.
template <typename F>
int at_border(F&& body) noexcept {
  try {
    const Status status = body();
    return status.ok() ? 0 : fail(status.error());
  } catch (const std::bad_alloc&) {
    return fail({ENOMEM, "there is not enough memory"});
  } catch (const std::length_error&) {
    return fail({ENOMEM, "there is not enough memory"});
  } catch (const std::exception& error) {
    return fail({EIO, error.what()});
  } catch (...) {
    return fail({EIO, "something unexpected was thrown"});
  }
}

/// Work on `threads` threads, the caller's one of them; what one throws is thrown to the caller.
void run_on(size_t threads, size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto loop = [&]() noexcept {
    try {
      for (size_t i = next++; i < count; i = next++) {
        work(i);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      thrown = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> helpers;
  try {
    while (helpers.size() + 1 < std::min(threads, count)) {
      helpers.emplace_back(loop);
    }
  } catch (const std::exception&) {  // no more threads are to be had: fewer do
  }
  loop();
  for (std::thread& helper : helpers) {
    helper.join();
  }
  if (thrown) {
    std::rethrow_exception(thrown);
  }
}

Parallel parallel_of(uint32_t threads) {
  const size_t count = threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
  if (count < 2) {
    return {};
  }
  return [count](size_t parts, const std::function<void(size_t)>& work) { run_on(count, parts, work); };
}

/// Bytes of `count` elements, or nothing when that is no size.
std::optional<uint64_t> bytes_of(const Extents& shape, size_t size) {
  uint64_t count = size;
  for (const uint64_t extent : shape) {
    if (extent != 0 && count > (uint64_t{1} << 62) / extent) {
      return std::nullopt;
    }
    count *= extent;
  }
  return count;
}

Error missing(std::string_view what) { return {EINVAL, fmt::format("{} is a null pointer", what)}; }

Status compress(const varve_spec& spec, const void* elements, void** container, uint64_t* size) {
  if (spec.rank > VARVE_MAX_RANK) {
    return Error{EINVAL, fmt::format("array has {} axes; at most {} can be stored", spec.rank, VARVE_MAX_RANK)};
  }
  if ((spec.rank > 0 && spec.shape == nullptr) || (spec.fill_count > 0 && spec.fills == nullptr)) {
    return missing("the shape or the list of missing values");
  }
  ArraySpec array;
  array.dtype = static_cast<DType>(spec.dtype <= UINT8_MAX ? spec.dtype : 0);
  if (element_size(array.dtype) == 0) {
    return Error{EINVAL, fmt::format("element type number {} is not known", spec.dtype)};
  }
  array.shape.assign(spec.shape, spec.shape + spec.rank);
  VARVE_ASSIGN(array.bound, parse_bound(spec.bound == nullptr ? "lossless" : spec.bound));
  array.fill_values.assign(spec.fills, spec.fills + spec.fill_count);
  array.parallel = parallel_of(spec.threads);
  const auto bytes = bytes_of(array.shape, element_size(array.dtype));
  if (!bytes.has_value()) {
    return Error{EINVAL, "the array is larger than memory can be"};
  }
  if (elements == nullptr && *bytes > 0) {
    return missing("the array");
  }
  array.elements = {static_cast<const std::byte*>(elements), *bytes};
  VARVE_ASSIGN(const Bytes made, make_container(array));
  void* const out = std::malloc(made.size());
  if (out == nullptr) {
    throw std::bad_alloc();
  }
  std::memcpy(out, made.data(), made.size());
  *container = out;
  *size = made.size();
  return {};
}

template <size_t N>
void copy_text(const std::string& text, char (&to)[N]) {
  const size_t size = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
}

void fill_in(const Container& container, varve_info& info) {
  const ArrayCodec& codec = container.codec();
  const CodecInfo facts = codec.info();
  info = {};
  info.dtype = static_cast<uint32_t>(codec.dtype());
  info.rank = static_cast<uint32_t>(codec.shape().size());
  std::copy(codec.shape().begin(), codec.shape().end(), info.shape);
  if (codec.brick_count() > 0) {
    const Extents brick = codec.brick_box(0).shape;
    std::copy(brick.begin(), brick.end(), info.brick);
  }
  info.size = element_count(codec.shape()) * element_size(codec.dtype());
  info.stored = container.size();
  for (uint8_t level = 0; level < VARVE_LEVELS; ++level) {
    info.prefix[level] = container.prefix(level);
  }
  info.absolute_bound = facts.absolute_bound;
  info.min = facts.min;
  info.max = facts.max;
  copy_text(to_string(facts.bound), info.bound);
  copy_text(facts.method, info.method);
}

Status decompress(const Container& container, const Box& box, uint32_t level, uint32_t threads, void* out,
                  uint64_t out_size) {
  const auto bytes = bytes_of(box.shape, element_size(container.codec().dtype()));
  if (!bytes.has_value() || *bytes != out_size) {
    return Error{EINVAL, fmt::format("there is room for {} bytes where exactly {} are needed", out_size,
                                     bytes.value_or(UINT64_MAX))};
  }
  if (out == nullptr && out_size > 0) {
    return missing("the output");
  }
  return container.decode(box, static_cast<uint8_t>(std::min(level, 255U)), static_cast<std::byte*>(out),
                          parallel_of(threads));
}

}  // namespace

const char* varve_version(void) { return VARVE_VERSION; }
const char* varve_last_error(void) { return last_error.c_str(); }

uint32_t varve_element_size(uint32_t dtype) {
  return dtype <= UINT8_MAX ? static_cast<uint32_t>(element_size(static_cast<DType>(dtype))) : 0;
}

int varve_compress(const struct varve_spec* spec, const void* elements, void** container, uint64_t* size) {
  return at_border([&]() -> Status {
    if (spec == nullptr || container == nullptr || size == nullptr) {
      return missing("the specification or a result");
    }
    return compress(*spec, elements, container, size);
  });
}

void varve_free(void* container) { std::free(container); }

int varve_open(const void* container, uint64_t size, struct varve_container** opened) {
  return at_border([&]() -> Status {
    if (container == nullptr || opened == nullptr) {
      return missing("the container or the result");
    }
    VARVE_ASSIGN(Container made, Container::open({static_cast<const std::byte*>(container), size}));
    *opened = new varve_container{std::move(made)};
    return {};
  });
}

void varve_close(struct varve_container* opened) { delete opened; }

int varve_get_info(const struct varve_container* opened, struct varve_info* info) {
  return at_border([&]() -> Status {
    if (opened == nullptr || info == nullptr) {
      return missing("the container or the result");
    }
    fill_in(opened->content, *info);
    return {};
  });
}

int varve_decompress(const struct varve_container* opened, uint32_t level, uint32_t threads, void* out,
                     uint64_t out_size) {
  return at_border([&]() -> Status {
    if (opened == nullptr) {
      return missing("the container");
    }
    const Extents& shape = opened->content.codec().shape();
    return decompress(opened->content, {Extents(shape.size(), 0), shape}, level, threads, out, out_size);
  });
}

int varve_decompress_box(const struct varve_container* opened, const uint64_t* origin, const uint64_t* shape,
                         uint32_t level, uint32_t threads, void* out, uint64_t out_size) {
  return at_border([&]() -> Status {
    if (opened == nullptr) {
      return missing("the container");
    }
    const size_t rank = opened->content.codec().shape().size();
    if (rank > 0 && (origin == nullptr || shape == nullptr)) {
      return missing("the box");
    }
    return decompress(opened->content, {{origin, origin + rank}, {shape, shape + rank}}, level, threads, out, out_size);
  });
}

int varve_verify(const struct varve_container* opened) {
  return at_border([&]() -> Status { return opened == nullptr ? missing("the container") : opened->content.verify(); });
}
