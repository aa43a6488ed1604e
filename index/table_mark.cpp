#include "index/table_mark.h"

#include <rocksdb/db.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <span>
#include <utility>

namespace varve::index {
namespace {

constexpr uint64_t kMost = 1 << 20;  ///< tables; a damaged mark must not ask for more memory

/// As on the disk, little-endian: how many tables, XXH3 of the text of db/CURRENT, the tables, XXH3 of all this.
using Words = std::vector<uint64_t>;

uint64_t hash_of(std::span<const uint64_t> words) { return XXH3_64bits(words.data(), words.size_bytes()); }

std::vector<uint64_t> tables_of(rocksdb::DB& database) {
  std::vector<rocksdb::LiveFileMetaData> files;
  database.GetLiveFilesMetaData(&files);
  std::vector<uint64_t> numbers;
  numbers.reserve(files.size());
  for (const rocksdb::LiveFileMetaData& file : files) {
    numbers.push_back(table_number(file.relative_filename));
  }
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace

uint64_t table_number(std::string_view name) {
  name.remove_prefix(name.rfind('/') + 1);
  uint64_t number = 0;
  std::from_chars(name.data(), name.data() + name.size(), number);
  return number;
}

TableMark::TableMark(std::shared_ptr<Device> device, std::string path)
    : device_(std::move(device)), path_(std::move(path)) {}

/// Which manifest is in force; 0: not known.
uint64_t TableMark::manifest() const {
  const auto file = device_->open(path_ + "/CURRENT", Device::Mode::read);
  std::array<std::byte, 64> text{};
  const auto got = file.ok() ? (*file)->read(0, text) : Result<size_t>(file.error());
  return got.ok() && *got > 0 ? XXH3_64bits(text.data(), *got) : 0;
}

std::vector<uint64_t> TableMark::read() const {
  const auto file = device_->open(path_ + "-tables", Device::Mode::read);
  Words head(2);
  if (!file.ok()) {
    return {};
  }
  const auto got = (*file)->read(0, std::as_writable_bytes(std::span(head)));
  if (!got.ok() || *got != 2 * sizeof(uint64_t) || head[0] > kMost || head[1] != manifest()) {
    return {};
  }
  Words words(head[0] + 3);
  const std::span all(words);
  const auto rest = (*file)->read(0, std::as_writable_bytes(all));
  if (!rest.ok() || *rest != all.size_bytes() || words.back() != hash_of(all.first(all.size() - 1))) {
    return {};
  }
  return {words.begin() + 2, words.end() - 1};
}

std::vector<uint64_t> TableMark::missing(rocksdb::DB& database) const {
  const std::vector<uint64_t> promised = read();
  const std::vector<uint64_t> found = tables_of(database);
  std::vector<uint64_t> lost;
  std::ranges::set_difference(promised, found, std::back_inserter(lost));
  return lost;
}

void TableMark::promise(rocksdb::DB& database) {
  const std::lock_guard lock(mutex_);
  write(database, false);
}

void TableMark::write(rocksdb::DB& database, bool withdraws) {
  if (!file_) {
    auto opened = device_->open(path_ + "-tables", Device::Mode::create);
    if (!opened.ok()) {
      return;
    }
    file_ = *std::move(opened);
  }
  Words words = {0, manifest()};
  for (const uint64_t number : tables_of(database)) {
    if (!replaced_.contains(number)) {
      words.push_back(number);
    }
  }
  words[0] = words.size() - 2;
  words.push_back(hash_of(words));
  const Status written = file_->write(0, std::as_bytes(std::span(words)));
  if (withdraws && (!written.ok() || !file_->sync().ok())) {
    (void)device_->remove(path_ + "-tables");  // better no promise than one that will be broken
    file_.reset();
  }
}

void TableMark::OnFlushCompleted(rocksdb::DB* database, const rocksdb::FlushJobInfo& /*job*/) { promise(*database); }

void TableMark::OnCompactionBegin(rocksdb::DB* database, const rocksdb::CompactionJobInfo& job) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : job.input_files) {
    replaced_.insert(table_number(name));
  }
  write(*database, true);
}

void TableMark::OnCompactionCompleted(rocksdb::DB* database, const rocksdb::CompactionJobInfo& job) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : job.input_files) {
    if (const auto one = replaced_.find(table_number(name)); one != replaced_.end()) {
      replaced_.erase(one);
    }
  }
  write(*database, false);
}

}  // namespace varve::index
