// What random_files does to a file.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "random_worker.h"

namespace varve::posix {

namespace {

constexpr uint64_t kPage = 4096;

}  // namespace

const std::vector<Worker::Choice>& Worker::choices() {
  static const std::vector<Choice> kChoices = {
      {20, &Worker::write},    {4, &Worker::append},    {16, &Worker::read},      {3, &Worker::read_direct},
      {9, &Worker::map_write}, {6, &Worker::map_read},  {3, &Worker::sync_map},   {4, &Worker::unmap_some},
      {3, &Worker::sync_file}, {6, &Worker::open_some}, {9, &Worker::close_some}, {5, &Worker::truncate},
      {8, &Worker::allocate},  {2, &Worker::refuse},    {5, &Worker::copy_range}, {2, &Worker::copy_whole},
      {2, &Worker::replace},   {3, &Worker::link},      {1, &Worker::recreate},   {2, &Worker::rewrite},
      {2, &Worker::reshape},   {4, &Worker::look},      {3, &Worker::seek},       {6, &Worker::close_and_check}};
  return kChoices;
}

void Worker::write() {
  const size_t slot = pick_slot();
  Descriptor& descriptor = writer(slot);
  const auto [offset, length] = range_to_write(slots_[slot], *descriptor.file, false);
  log(descriptor.file, fmt::format("write [{}, {})", offset, offset + length));
  put(slots_[slot], descriptor, offset, content(slots_[slot], length));
}

void Worker::append() {
  const size_t slot = pick_slot();
  const FilePointer target = file(slot);
  if (slots_[slot].kind == Kind::pattern || target->size() > 1'200'000) {
    return;
  }
  const std::string name = some_name(slot);
  const uint64_t length = 1 + below(30'000);
  log(target, fmt::format("append {} bytes to {}, at {}", length, name, target->size()));
  Descriptor& descriptor = keep(open(name, (chance(50) ? O_RDWR : O_WRONLY) | O_APPEND));
  const Bytes data = content(slots_[slot], length);
  check(::write(descriptor.number, data.data(), length) == static_cast<ssize_t>(length), target, "append");
  target->write(target->size(), data, number());
  set_spans(slots_[slot], *target);
  touched(*target);
}

void Worker::read() {
  const Descriptor& descriptor = reader(pick_slot());
  const auto [offset, length] = range_to_read(*descriptor.file);
  log(descriptor.file, fmt::format("read [{}, {})", offset, offset + length));
  read_part(descriptor.number, descriptor.file, offset, length, "read");
}

/// Past the page cache.
void Worker::read_direct() {
  const size_t slot = pick_slot();
  const std::string name = some_name(slot);
  const Descriptor descriptor = open(name, O_RDONLY | O_DIRECT);
  const uint64_t offset = below(file(slot)->size() + 1) / kPage * kPage;
  const uint64_t length = kPage * (1 + below(40));
  log(file(slot), fmt::format("read [{}, {}) of {} past the page cache", offset, offset + length, name));
  read_part(descriptor.number, file(slot), offset, length, "read past the page cache");
  ::close(descriptor.number);
}

void Worker::map_write() {
  const size_t slot = pick_slot();
  Map* const map = map_of(slot, true);
  if (map == nullptr) {
    return;
  }
  auto [offset, length] = range_to_write(slots_[slot], *map->file, true);
  const uint64_t end = std::min({offset + length, map->length, map->file->size()});
  if (offset >= end) {
    return;
  }
  const Bytes data = content(slots_[slot], end - offset);
  log(map->file, fmt::format("write [{}, {}) through a map", offset, end));
  std::memcpy(map->at + offset, data.data(), data.size());
  map->file->write(offset, data, number());
  // The kernel hands over whole pages, so the mount takes all of them for written: see README.md.
  map->file->rewritten(offset / kPage * kPage, (end + kPage - 1) / kPage * kPage);
  touched(*map->file);
}

void Worker::map_read() {
  const Map* const map = map_of(pick_slot(), false);
  if (map == nullptr) {
    return;
  }
  const auto [offset, length] = range_to_read(*map->file);
  const uint64_t end = std::min({offset + length, map->length, map->file->size()});
  if (offset < end) {
    log(map->file, fmt::format("read [{}, {}) through a map", offset, end));
    const Bytes got(map->at + offset, map->at + end);
    compare(map->file, offset, got, map->file->expected(), "read through a map");
  }
}

void Worker::sync_map() {
  if (maps_.empty()) {
    return;
  }
  const Map& map = maps_[below(maps_.size())];
  const bool may_seal = may_seal_on_sync(*map.file);
  const int how = chance(70) ? MS_SYNC : MS_ASYNC;
  log(map.file, fmt::format("msync{}", how == MS_SYNC ? "" : ", asynchronous"));
  check(msync(map.at, map.length, how) == 0, map.file, "msync");
  after_sync(map.file, may_seal);
}

void Worker::unmap_some() {
  if (!maps_.empty()) {
    unmap(below(maps_.size()));
  }
}

void Worker::sync_file() {
  Descriptor& descriptor = chance(70) ? writer(pick_slot()) : reader(pick_slot());
  const FilePointer target = descriptor.file;
  const bool may_seal = may_seal_on_sync(*target);
  const bool data_only = chance(30);
  log(target, data_only ? "fdatasync" : "fsync");
  check((data_only ? fdatasync(descriptor.number) : fsync(descriptor.number)) == 0, target, "fsync");
  after_sync(target, may_seal);
}

/// It may have sealed under open descriptors: what has moved is found by an open, which drops stale pages.
void Worker::after_sync(const FilePointer& synced, bool may_seal) {
  if (!may_seal || !synced->changed || synced->writers == 0) {
    return;
  }
  for (const auto& [name, other] : names_) {
    if (other == synced) {
      const Descriptor descriptor = open(name, O_RDONLY);
      synced->take(read_whole(descriptor.number, synced, Expect::sealing, "read after an fsync that may have sealed"),
                   false);
      ::close(descriptor.number);
      return;
    }
  }
}

void Worker::open_some() {
  const size_t slot = pick_slot();
  const std::string name = some_name(slot);
  constexpr std::array kModes = {O_RDONLY, O_WRONLY, O_RDWR};
  const int mode = kModes[below(kModes.size())];
  log(file(slot), fmt::format("open {}, mode {}", name, mode));
  keep(open(name, mode));
}

void Worker::close_some() {
  if (!descriptors_.empty()) {
    close(below(descriptors_.size()));
  }
}

void Worker::truncate() {
  const size_t slot = pick_slot();
  const FilePointer target = file(slot);
  if (slots_[slot].kind == Kind::pattern) {
    return;
  }
  uint64_t size = slots_[slot].header();
  size = std::max(
      size, chance(60) ? below(target->size() + 1) : below(std::min<uint64_t>(target->size() * 2 + 1, 1'400'000)));
  const bool by_name = chance(40);
  const std::string name = some_name(slot);
  if (by_name) {
    settle(name);
  }
  const int descriptor = by_name ? -1 : writer(slot).number;
  log(target, fmt::format("{}truncate from {} to {}", by_name ? "" : "f", target->size(), size));
  const int result =
      by_name ? ::truncate(name.c_str(), static_cast<off_t>(size)) : ftruncate(descriptor, static_cast<off_t>(size));
  check(result == 0, target, "truncate");
  target->resize(size, number());
  set_spans(slots_[slot], *target);
  touched(*target);
}

void Worker::allocate() {
  const size_t slot = pick_slot();
  Descriptor& descriptor = writer(slot);
  const FilePointer target = descriptor.file;
  constexpr std::array kModes = {0,
                                 FALLOC_FL_KEEP_SIZE,
                                 FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                 FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                 FALLOC_FL_ZERO_RANGE,
                                 FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};
  const int mode = kModes[below(kModes.size())];
  const auto [offset, length] = range_to_write(slots_[slot], *target, false);
  log(target, fmt::format("fallocate mode {:#x} [{}, {})", mode, offset, offset + length));
  check(fallocate(descriptor.number, mode, static_cast<off_t>(offset), static_cast<off_t>(length)) == 0, target,
        "fallocate");
  if ((mode & FALLOC_FL_KEEP_SIZE) == 0) {
    target->resize(std::max(target->size(), offset + length), number());
  }
  if ((mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0) {
    target->zero(offset, length, number());
  }
  target->changed = true;
  set_spans(slots_[slot], *target);
  touched(*target);
}

/// What is not supported is refused, each time, and changes nothing.
void Worker::refuse() {
  const size_t slot = pick_slot();
  Descriptor& descriptor = writer(slot);
  constexpr std::array kModes = {FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE, FALLOC_FL_UNSHARE_RANGE,
                                 FALLOC_FL_PUNCH_HOLE};
  const int mode = kModes[below(kModes.size())];
  const uint64_t offset = below(descriptor.file->size() / kPage + 1) * kPage;
  log(descriptor.file, fmt::format("fallocate mode {:#x} [{}, {})", mode, offset, offset + kPage));
  errno = 0;
  const int result = fallocate(descriptor.number, mode, static_cast<off_t>(offset), kPage);
  check(result == -1 && errno == EOPNOTSUPP, descriptor.file, "fallocate that is to be refused");
  struct stat status {};
  check(fstat(descriptor.number, &status) == 0 && status.st_size == static_cast<off_t>(descriptor.file->size()),
        descriptor.file, "size after it");
}

void Worker::copy_range() {
  const size_t from = pick_slot();
  const size_t to = pick_slot();
  settle(path(from));
  Descriptor source = reader(from);
  Descriptor& target = writer(to);
  const Descriptor copy = target;
  auto [offset, length] = range_to_write(slots_[to], *copy.file, false);
  const uint64_t begin = below(source.file->size() + 1);
  length = std::min(length, source.file->size() - begin);
  if (source.file == copy.file && begin < offset + length && offset < begin + length) {
    return;  // ranges of one file that overlap are refused
  }
  log(copy.file,
      fmt::format("copy_file_range of file {} [{}, {}) to {}", source.file->number, begin, begin + length, offset));
  const std::span<const uint8_t> data = source.file->bytes(begin, length);
  const Bytes bytes(data.begin(), data.end());
  uint64_t done = 0;
  while (done < length) {
    auto in = static_cast<off_t>(begin + done);
    auto out = static_cast<off_t>(offset + done);
    const ssize_t count = copy_file_range(source.number, &in, copy.number, &out, length - done, 0);
    check(count > 0, copy.file, fmt::format("copy_file_range gave {} after {}", count, done));
    done += static_cast<uint64_t>(count);
  }
  copy.file->write(offset, bytes, number());
  set_spans(slots_[to], *copy.file);
  touched(*copy.file);
}

/// As cp does it: a copy of a sealed file beside another, which it then replaces.
void Worker::copy_whole() {
  const size_t from = pick_slot();
  const size_t to = pick_slot();
  if (slots_[from].kind != slots_[to].kind || slots_[from].type != slots_[to].type ||
      slots_[from].pattern != slots_[to].pattern) {
    return;
  }
  let_go(file(from));
  settle(path(from));
  const FilePointer source = file(from);
  const std::string name = path(to, "t");
  auto made = std::make_shared<FileModel>(++files_made_, slots_[to].bound);
  const bool by_range = chance(50);
  log(made, fmt::format("{} of file {}, {} bytes, to {}", by_range ? "copy_file_range" : "copy", source->number,
                        source->size(), name));
  const Descriptor in = open(path(from), O_RDONLY);
  const int out = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  check(out >= 0, made, "create");
  names_[name] = made;
  const Bytes got = read_whole(in.number, source, Expect::exact, "read to be copied");
  uint64_t done = 0;
  while (done < source->size()) {
    const ssize_t count = by_range ? copy_file_range(in.number, nullptr, out, nullptr, source->size() - done, 0)
                                   : ::write(out, &got[done], std::min<uint64_t>(source->size() - done, 131'072));
    check(count > 0, made, fmt::format("a copy gave {} after {}", count, done));
    done += static_cast<uint64_t>(count);
  }
  ::close(in.number);
  check(::close(out) == 0, made, "close of a copy");
  if (source->lossy) {
    made->become(*source, number());
  } else {
    made->write(0, got, number());
  }
  set_spans(slots_[to], *made);
  settle(name);
  rename_over(to, "t");
}

/// A new file takes the name of an old one, which may be open.
void Worker::replace() {
  const size_t slot = pick_slot();
  make_file(slot, "t");
  rename_over(slot, "t");
}

void Worker::link() {
  const size_t slot = pick_slot();
  const std::string other = path(slot, "l");
  const auto found = names_.find(other);
  if (found != names_.end()) {
    const FilePointer target = found->second;
    log(target, fmt::format("unlink {}", other));
    check(unlink(other.c_str()) == 0, target, "unlink");
    target->drop_link();
    names_.erase(other);
    return;
  }
  const FilePointer target = file(slot);
  log(target, fmt::format("link {}", other));
  check(::link(path(slot).c_str(), other.c_str()) == 0, target, "link");
  ++target->links;
  names_[other] = target;
}

void Worker::recreate() {
  const size_t slot = pick_slot();
  const FilePointer target = file(slot);
  log(target, fmt::format("unlink {}", path(slot)));
  check(unlink(path(slot).c_str()) == 0, target, "unlink");
  target->drop_link();
  names_.erase(path(slot));
  make_file(slot, "");
}

/// As a program that saves a file in place: O_TRUNC, then all of it.
void Worker::rewrite() {
  const size_t slot = pick_slot();
  const FilePointer target = file(slot);
  const std::string name = some_name(slot);
  const Bytes bytes = whole_content(slots_[slot]);
  log(target, fmt::format("open {} with O_TRUNC, write {} bytes", name, bytes.size()));
  Descriptor& descriptor = keep(open(name, O_RDWR | O_TRUNC));
  target->resize(0, number());
  target->set_spans({});
  put(slots_[slot], descriptor, 0, bytes);
  target->changed = target->size() > 0;
}

/// The header of an array says another shape; the length follows at once, or has to wait.
void Worker::reshape() {
  const size_t slot = pick_slot();
  if (slots_[slot].kind != Kind::npy) {
    return;
  }
  Descriptor& descriptor = writer(slot);
  const FilePointer target = descriptor.file;
  const uint64_t held = (target->size() - slots_[slot].header()) / slots_[slot].element();
  const uint64_t elements = chance(50) ? held : below(160) * 2000 + (chance(80) ? 0 : below(2000));
  const Bytes header = npy_header(slots_[slot], elements);
  log(target, fmt::format("header of {} elements, the file has {}", elements, held));
  put(slots_[slot], descriptor, 0, header);
  const uint64_t size = slots_[slot].header() + elements * slots_[slot].element();
  if (chance(90) && size < 1'500'000) {
    log(target, fmt::format("ftruncate to {}", size));
    check(ftruncate(descriptor.number, static_cast<off_t>(size)) == 0, target, "ftruncate");
    target->resize(size, number());
    set_spans(slots_[slot], *target);
  }
}

void Worker::look() {
  const size_t slot = pick_slot();
  const std::string name = some_name(slot);
  const FilePointer target = names_.at(name);
  struct stat status {};
  check(stat(name.c_str(), &status) == 0, target, "stat");
  check(status.st_size == static_cast<off_t>(target->size()), target,
        fmt::format("stat says {} bytes, wanted {}", status.st_size, target->size()));
  check(status.st_nlink == target->links, target, fmt::format("{} links, wanted {}", status.st_nlink, target->links));
}

/// What is called a hole reads as zeros, and data and holes follow each other to the end.
void Worker::seek() {
  Descriptor& descriptor = reader(pick_slot());
  const FilePointer target = descriptor.file;
  log(target, "lseek through data and holes");
  const auto size = static_cast<off_t>(target->size());
  for (off_t at = 0; at < size;) {
    errno = 0;
    const off_t data = lseek(descriptor.number, at, SEEK_DATA);
    check(data >= at || (data == -1 && errno == ENXIO), target, fmt::format("SEEK_DATA from {} gave {}", at, data));
    const off_t hole_end = data < 0 ? size : data;
    const auto hole = target->bytes(static_cast<uint64_t>(at), static_cast<uint64_t>(hole_end - at));
    check(std::all_of(hole.begin(), hole.end(), [](uint8_t byte) { return byte == 0; }), target,
          fmt::format("[{}, {}) is called a hole and is none", at, hole_end));
    if (data < 0) {
      break;
    }
    at = lseek(descriptor.number, data, SEEK_HOLE);
    check(at > data && at <= size, target, fmt::format("SEEK_HOLE from {} gave {}", data, at));
  }
  errno = 0;
  check(lseek(descriptor.number, size, SEEK_DATA) == -1 && errno == ENXIO, target, "SEEK_DATA at the end");
}

void Worker::close_and_check() {
  const size_t slot = pick_slot();
  const FilePointer target = file(slot);
  let_go(target);
  log(target, fmt::format("wait until {} is sealed", path(slot)));
  std::array<char, 64> state{};
  const ssize_t length = getxattr(path(slot).c_str(), "user.varve.state", state.data(), state.size());
  check(length > 0, target, "getxattr of user.varve.state");
  const std::string_view text(state.data(), static_cast<size_t>(length));
  check(text == "sealed" || (target->size() == 0 && text == "empty"), target, fmt::format("the state is {}", text));
  settle(path(slot));
  const Descriptor descriptor = open(path(slot), O_RDONLY);
  read_whole(descriptor.number, target, Expect::exact, "read again");
  ::close(descriptor.number);
}

}  // namespace varve::posix
