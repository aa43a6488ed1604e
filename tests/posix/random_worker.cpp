#include "random_worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace varve::posix {

namespace {

constexpr uint64_t kRow = 2000;  ///< elements of 40 x 50
constexpr uint64_t kMostBytes = 1'500'000;
constexpr uint64_t kLongestWrite = 300'000;
constexpr size_t kMostDescriptors = 12;
constexpr size_t kMostMaps = 6;
constexpr size_t kShownOperations = 60;
/// An fsync this long after the last write may seal (a fifth of what the mount waits for, for slow clocks).
constexpr double kMayBeQuiet = 0.2;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Elements that a header says there are.
uint64_t elements_of(std::span<const uint8_t> header) {
  const std::string text(header.begin(), header.end());
  const size_t at = text.find("'shape': (") + 10;
  const uint64_t first = std::stoull(text.substr(at));
  return text.find(", 40, 50)") == std::string::npos ? first : first * kRow;
}

template <typename T>
void fill(Bytes& bytes, std::mt19937_64& random, unsigned way) {
  const size_t count = bytes.size() / sizeof(T);
  const double phase = static_cast<double>(random() % 1000);
  const auto constant = static_cast<T>(static_cast<double>(random() % 2000) / 7 - 100);
  for (size_t i = 0; i < count; ++i) {
    const double wave =
        100 * std::sin(0.01 * static_cast<double>(i) + phase) + 0.5 * std::sin(1.3 * static_cast<double>(i));
    T value = way == 0 ? constant : static_cast<T>(wave);
    if constexpr (std::is_floating_point_v<T>) {
      if (way == 1 && random() % 50 == 0) {
        constexpr T kSpecial[] = {
            std::numeric_limits<T>::quiet_NaN(),  std::numeric_limits<T>::infinity(), T(-0.0), T(0),
            std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::max()};
        value = kSpecial[random() % std::size(kSpecial)];
      }
    }
    std::memcpy(&bytes[i * sizeof(T)], &value, sizeof(T));
  }
}

}  // namespace

Bytes npy_header(const Slot& slot, uint64_t elements) {
  const std::string shape =
      elements % kRow == 0 ? fmt::format("({}, 40, 50)", elements / kRow) : fmt::format("({},)", elements);
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", slot.type, shape);
  text.resize(slot.header() - 11, ' ');
  text = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + text + '\n';
  return {text.begin(), text.end()};
}

Worker::Worker(uint64_t seed, std::vector<Slot> slots, bool verbose)
    : seed_(seed), verbose_(verbose), random_(seed), slots_(std::move(slots)) {}

Worker::~Worker() {
  for (const Map& map : maps_) {
    munmap(map.at, map.length);
  }
  for (const Descriptor& descriptor : descriptors_) {
    ::close(descriptor.number);
  }
}

void Worker::log(const FilePointer& file, std::string text) {
  std::snprintf(current_, sizeof current_, "#%zu file %llu: %s", log_.size() + 1,
                static_cast<unsigned long long>(file->number), text.c_str());
  if (verbose_) {
    fmt::print("seed {} {}\n", seed_, current_);
  }
  log_.push_back({file->number, std::move(text)});
}

void Worker::fail(const FilePointer& file, const std::string& text) {
  std::string all = fmt::format("seed {}, operation {}, file {}: {}\n", seed_, number(), file->number, text);
  for (const auto& [name, other] : names_) {
    if (other == file) {
      all += fmt::format("  it is {}, {} bytes, {} writers\n", name, file->size(), file->writers);
    }
  }
  std::vector<std::string> lines;
  for (size_t i = log_.size(); i > 0 && lines.size() < kShownOperations; --i) {
    if (log_[i - 1].file == file->number) {
      lines.push_back(fmt::format("  #{} {}\n", i, log_[i - 1].text));
    }
  }
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    all += *line;
  }
  throw Differs(all);
}

void Worker::check(bool holds, const FilePointer& file, const std::string& what) {
  if (!holds) {
    fail(file, fmt::format("{} ({})", what, std::strerror(errno)));
  }
}

void Worker::touched(FileModel& file) { file.last_change = now(); }

bool Worker::may_seal_on_sync(const FileModel& file) const { return now() - file.last_change > kMayBeQuiet; }

void Worker::compare(const FilePointer& file, uint64_t offset, std::span<const uint8_t> got, Expect expect,
                     const std::string& how) {
  if (const auto difference = file->compare(offset, got, expect)) {
    const uint64_t last = difference->last_write;
    fail(file, fmt::format("{}: {} bytes differ, the first that may not at {}: {}\n  last written by #{} {}", how,
                           difference->count, difference->offset, difference->text, last,
                           last > 0 && last <= log_.size() ? log_[last - 1].text : ""));
  }
}

// --- what to do it with ---------------------------------------------------------------------------------------------

std::string Worker::path(size_t slot, std::string_view prefix) const {
  return fmt::format("{}/{}{}", slots_[slot].directory, prefix, slots_[slot].name);
}

/// One of the names of a slot's file.
std::string Worker::some_name(size_t slot) {
  const std::string other = path(slot, "l");
  const auto found = names_.find(other);
  return found != names_.end() && found->second == file(slot) && chance(30) ? other : path(slot);
}

/// Offset and length; `inside`: of the file as it is (then the length may be 0).
std::pair<uint64_t, uint64_t> Worker::range_to_write(const Slot& slot, const FileModel& file, bool inside) {
  uint64_t begin = slot.header();
  uint64_t end = inside ? file.size() : kMostBytes;
  if (slot.kind == Kind::pattern) {
    const Span& span = slot.spans[below(slot.spans.size())];
    begin = span.offset;
    end = span.offset + span.bytes;
  }
  if (begin >= end) {
    return {begin, 0};
  }
  const uint64_t near = std::clamp<uint64_t>(file.size(), begin + 1, end);
  uint64_t offset = begin + below(chance(80) ? near - begin : std::min(end, near + 200'000) - begin);
  switch (below(4)) {
    case 0:
      offset -= std::min(offset - begin, offset % 4096);
      break;
    case 1:
      offset -= (offset - begin) % slot.element();
      break;
    case 2:
      offset = chance(20) ? near - 1 : offset;
      break;
    default:
      break;
  }
  uint64_t length = 1 + below(uint64_t{1} << (3 + below(16)));
  length = chance(50) ? (length + slot.element() - 1) / slot.element() * slot.element() : length;
  if (chance(5)) {
    offset = begin;
    length = std::max(near, begin) - begin;
  }
  length = std::min({length, end - offset, chance(5) ? kMostBytes : kLongestWrite});
  return {offset, length};
}

std::pair<uint64_t, uint64_t> Worker::range_to_read(const FileModel& file) {
  const uint64_t offset = below(file.size() + 10);
  return {chance(50) ? offset / 4096 * 4096 : offset, 1 + below(uint64_t{1} << (3 + below(17)))};
}

Bytes Worker::content(const Slot& slot, uint64_t length) {
  Bytes bytes(length + 8);
  const auto way = static_cast<unsigned>(below(6));
  if (way == 5) {
    for (uint8_t& byte : bytes) {
      byte = static_cast<uint8_t>(random_());
    }
  } else if (slot.type == "<f8") {
    fill<double>(bytes, random_, way);
  } else if (slot.type == "<i4") {
    fill<int32_t>(bytes, random_, way);
  } else if (slot.kind == Kind::bytes) {
    fill<uint8_t>(bytes, random_, way);
  } else {
    fill<float>(bytes, random_, way);
  }
  bytes.resize(length);
  return bytes;
}

/// A whole new file.
Bytes Worker::whole_content(const Slot& slot) {
  if (slot.kind == Kind::pattern) {
    return slot.pattern;
  }
  if (slot.kind == Kind::raw) {
    return content(slot, kRow * 100 * slot.element());
  }
  if (slot.kind == Kind::bytes) {
    return content(slot, below(chance(50) ? 100'000 : 600'000));
  }
  const uint64_t elements = chance(80) ? kRow * (1 + below(150)) : 1 + below(kRow * 60);
  Bytes bytes = npy_header(slot, elements);
  const Bytes data = content(slot, elements * slot.element());
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

/// Where elements are that a bound may move, in the file as it is now.
void Worker::set_spans(const Slot& slot, FileModel& file) {
  if (slot.kind == Kind::pattern && !slot.type.empty()) {
    file.set_spans(slot.spans);
    return;
  }
  if ((slot.type != "<f4" && slot.type != "<f8") || file.size() < slot.header()) {
    file.set_spans({});
    return;
  }
  const uint64_t size = slot.element();
  uint64_t elements = (file.size() - slot.header()) / size;
  if (slot.kind == Kind::npy) {
    elements = std::min(elements, elements_of(file.bytes(0, slot.header())));
  }
  file.set_spans({{slot.header(), elements * size, size}});
}

// --- open files -----------------------------------------------------------------------------------------------------

Descriptor Worker::open(const std::string& path, int flags) {
  const FilePointer& file = names_.at(path);
  const bool ended = file->sealing() && (flags & O_TRUNC) == 0;
  Descriptor descriptor;
  descriptor.number = ::open(path.c_str(), flags | O_CLOEXEC);
  check(descriptor.number >= 0, file, "open");
  descriptor.file = file;
  descriptor.reads = (flags & O_ACCMODE) != O_WRONLY;
  descriptor.writes = (flags & O_ACCMODE) != O_RDONLY;
  descriptor.appends = (flags & O_APPEND) != 0;
  descriptor.direct = (flags & O_DIRECT) != 0;
  if (ended) {  // the open has waited for the seal
    const int whole = descriptor.reads && !descriptor.direct ? descriptor.number : ::open(path.c_str(), O_RDONLY);
    check(whole >= 0, file, "open for reading");
    file->take(read_whole(whole, file, Expect::sealed, "opened after the last writer closed"), true);
    if (whole != descriptor.number) {
      ::close(whole);
    }
  }
  file->writers += descriptor.writes ? 1 : 0;
  return descriptor;
}

Descriptor& Worker::keep(Descriptor descriptor) {
  descriptors_.push_back(std::move(descriptor));
  return descriptors_.back();
}

void Worker::close(size_t index) {
  const Descriptor descriptor = descriptors_[index];
  descriptors_.erase(descriptors_.begin() + static_cast<ptrdiff_t>(index));
  log(descriptor.file, fmt::format("close{}", descriptor.writes ? ", a writer" : ""));
  check(::close(descriptor.number) == 0, descriptor.file, "close");
  descriptor.file->writers -= descriptor.writes ? 1 : 0;
}

void Worker::unmap(size_t index) {
  const Map map = maps_[index];
  maps_.erase(maps_.begin() + static_cast<ptrdiff_t>(index));
  log(map.file, "munmap");
  check(munmap(map.at, map.length) == 0, map.file, "munmap");
  map.file->writers -= map.counts ? 1 : 0;
}

void Worker::let_go(const FilePointer& file) {
  for (size_t i = maps_.size(); i > 0; --i) {
    if (maps_[i - 1].file == file) {
      unmap(i - 1);
    }
  }
  for (size_t i = descriptors_.size(); i > 0; --i) {
    if (descriptors_[i - 1].file == file) {
      close(i - 1);
    }
  }
}

/// Afterwards it is known what the file holds, if no writer has it open.
void Worker::settle(const std::string& path) {
  if (names_.at(path)->sealing()) {
    ::close(open(path, O_RDONLY).number);
  }
}

/// What the file holds to its end, which is what the model expects.
Bytes Worker::read_whole(int descriptor, const FilePointer& file, Expect expect, const std::string& how) {
  Bytes got(file->size() + 1);
  uint64_t at = 0;
  while (at < got.size()) {
    const ssize_t count = pread(descriptor, &got[at], got.size() - at, static_cast<off_t>(at));
    if (count <= 0) {
      break;
    }
    at += static_cast<uint64_t>(count);
  }
  got.resize(at);
  check(at == file->size(), file, fmt::format("{}: {} bytes, wanted {}", how, at, file->size()));
  compare(file, 0, got, expect, how);
  return got;
}

void Worker::read_part(int descriptor, const FilePointer& file, uint64_t offset, uint64_t length,
                       const std::string& how) {
  constexpr size_t kAlignment = 4096;  // for O_DIRECT
  const std::unique_ptr<void, decltype(&std::free)> buffer(
      std::aligned_alloc(kAlignment, (length + kAlignment - 1) / kAlignment * kAlignment), &std::free);
  const ssize_t count = pread(descriptor, buffer.get(), length, static_cast<off_t>(offset));
  const uint64_t wanted = offset < file->size() ? std::min(length, file->size() - offset) : 0;
  check(count == static_cast<ssize_t>(wanted), file, fmt::format("{} gave {}, wanted {}", how, count, wanted));
  compare(file, offset, std::span(static_cast<const uint8_t*>(buffer.get()), wanted), file->expected(), how);
}

/// A descriptor that writes a slot's file: one that is open, or a new one.
Descriptor& Worker::writer(size_t slot) {
  for (Descriptor& descriptor : descriptors_) {
    if (descriptor.file == file(slot) && descriptor.writes && !descriptor.appends && !descriptor.direct && chance(80)) {
      return descriptor;
    }
  }
  const std::string name = some_name(slot);
  log(file(slot), fmt::format("open {} for writing", name));
  return keep(open(name, chance(70) ? O_RDWR : O_WRONLY));
}

Descriptor& Worker::reader(size_t slot) {
  for (Descriptor& descriptor : descriptors_) {
    if (descriptor.file == file(slot) && descriptor.reads && !descriptor.direct && chance(70)) {
      return descriptor;
    }
  }
  const std::string name = some_name(slot);
  log(file(slot), fmt::format("open {} for reading", name));
  return keep(open(name, O_RDONLY));
}

/// A map of the whole file; null: the file is empty.
Map* Worker::map_of(size_t slot, bool writes) {
  const FilePointer& mapped = file(slot);
  for (Map& map : maps_) {
    if (map.file == mapped && (map.writes || !writes) && map.length >= mapped->size() && chance(80)) {
      return &map;
    }
  }
  if (mapped->size() == 0) {
    return nullptr;
  }
  const std::string name = some_name(slot);
  const bool writing = writes || chance(30);
  const Descriptor descriptor = open(name, writing ? O_RDWR : O_RDONLY);
  Map map{nullptr, mapped->size(), mapped, writing, descriptor.writes};
  log(mapped, fmt::format("mmap {} bytes of {}{}", map.length, name, writing ? " to write" : ""));
  void* const at = mmap(nullptr, map.length, PROT_READ | (writing ? PROT_WRITE : 0), MAP_SHARED, descriptor.number, 0);
  check(at != MAP_FAILED, mapped, "mmap");
  map.at = static_cast<uint8_t*>(at);
  check(::close(descriptor.number) == 0, mapped, "close of what is mapped");
  maps_.push_back(map);
  return &maps_.back();
}

void Worker::put(const Slot& slot, Descriptor& descriptor, uint64_t offset, const Bytes& data) {
  const FilePointer file = descriptor.file;
  const ssize_t written = pwrite(descriptor.number, data.data(), data.size(), static_cast<off_t>(offset));
  check(written == static_cast<ssize_t>(data.size()), file, fmt::format("write gave {}", written));
  file->write(offset, data, number());
  set_spans(slot, *file);
  touched(*file);
}

/// A new file of the slot's kind under its name with a prefix.
void Worker::make_file(size_t slot, std::string_view prefix) {
  const std::string name = path(slot, prefix);
  auto made = std::make_shared<FileModel>(++files_made_, slots_[slot].bound);
  const Bytes bytes = whole_content(slots_[slot]);
  log(made, fmt::format("create {}, {} bytes", name, bytes.size()));
  Descriptor descriptor;
  descriptor.number = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  check(descriptor.number >= 0, made, "create");
  descriptor.file = made;
  descriptor.reads = descriptor.writes = true;
  made->writers = 1;
  names_[name] = made;
  for (uint64_t at = 0; at < bytes.size();) {
    const uint64_t length = std::min<uint64_t>(bytes.size() - at, 1 + below(400'000));
    check(pwrite(descriptor.number, &bytes[at], length, static_cast<off_t>(at)) == static_cast<ssize_t>(length), made,
          "write of a new file");
    at += length;
  }
  made->write(0, bytes, number());
  made->changed = made->size() > 0;
  set_spans(slots_[slot], *made);
  touched(*made);
  keep(descriptor);
  if (chance(70)) {
    close(descriptors_.size() - 1);
  }
}

void Worker::rename_over(size_t slot, std::string_view prefix) {
  const std::string from = path(slot, prefix);
  const std::string to = path(slot);
  const FilePointer moved = names_.at(from);
  const FilePointer replaced = names_.at(to);
  log(moved, fmt::format("rename {} to {}", from, to));
  check(::rename(from.c_str(), to.c_str()) == 0, moved, "rename");
  replaced->drop_link();
  names_.erase(from);
  names_[to] = moved;
  log(replaced, fmt::format("replaced by file {}", moved->number));
}

void Worker::create_files() {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    make_file(slot, "");
  }
}

void Worker::operate(uint64_t operations) {
  unsigned sum = 0;
  for (const Choice& choice : choices()) {
    sum += choice.weight;
  }
  for (uint64_t i = 0; i < operations; ++i) {
    while (descriptors_.size() > kMostDescriptors) {
      close(below(descriptors_.size()));
    }
    while (maps_.size() > kMostMaps) {
      unmap(below(maps_.size()));
    }
    auto left = static_cast<unsigned>(below(sum));
    for (const Choice& choice : choices()) {
      if (left < choice.weight) {
        (this->*choice.operation)();
        break;
      }
      left -= choice.weight;
    }
  }
}

void Worker::close_all() {
  while (!maps_.empty()) {
    unmap(maps_.size() - 1);
  }
  while (!descriptors_.empty()) {
    close(descriptors_.size() - 1);
  }
}

void Worker::check_all() {
  for (const auto& [name, file] : names_) {
    const Descriptor descriptor = open(name, O_RDONLY);
    read_whole(descriptor.number, file, Expect::exact, "read as a whole");
    ::close(descriptor.number);
  }
}

}  // namespace varve::posix
