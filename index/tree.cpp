#include "index/tree.h"

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/utilities/table_properties_collectors.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "index/table_check.h"

namespace varve::index {
namespace {

constexpr std::array<const char*, kFamilies> kNames = {"default", "inode",  "dentry", "xattr", "layout",
                                                       "record",  "object", "pack",   "note"};
constexpr size_t kBlockCache = size_t{64} << 20;
constexpr size_t kWriteBuffer = size_t{16} << 20;
constexpr uint64_t kReopenSpace = uint64_t{16} << 20;  // reopening writes a manifest and tables from the log
constexpr std::chrono::milliseconds kReopenPause{500};
constexpr std::chrono::seconds kDrainPatience{2};

thread_local const Tree* reading = nullptr;  // the tree that this thread is in the middle of reading

rocksdb::Slice slice(std::string_view text) { return {text.data(), text.size()}; }

/// The first key after all that begin with `prefix`; empty if there is none.
std::string prefix_end(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) {
    end.pop_back();
  }
  if (!end.empty()) {
    ++end.back();
  }
  return end;
}

rocksdb::CompressionType best_compression() {
  const auto supported = rocksdb::GetSupportedCompressions();
  for (const auto type : {rocksdb::kZSTD, rocksdb::kLZ4Compression}) {
    if (std::find(supported.begin(), supported.end(), type) != supported.end()) {
      return type;
    }
  }
  return rocksdb::kNoCompression;
}

rocksdb::ColumnFamilyOptions family_options(Family family, const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.checksum = rocksdb::kXXH3;
  table.format_version = 5;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.block_size = family == Family::record || family == Family::layout ? 16384 : 4096;
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.write_buffer_size = kWriteBuffer;
  options.max_write_buffer_number = 3;
  options.level_compaction_dynamic_level_bytes = true;
  options.compression = rocksdb::kNoCompression;
  if (family == Family::layout || family == Family::note) {
    options.compression = best_compression();
  }
  if (family == Family::dentry || family == Family::record) {
    // Scans must not wade through what was erased long ago.
    options.table_properties_collector_factories.push_back(
        rocksdb::NewCompactOnDeletionCollectorFactory(4096, 2048, 0.5));
  }
  return options;
}

/// RocksDB's own messages go nowhere: a disk that is full would end the process where its logger asserts that it can
/// write (as Debian's does). What went wrong is in the statuses.
class NoMessages : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

rocksdb::DBOptions database_options(rocksdb::Env* environment, bool create, uint64_t memory) {
  rocksdb::DBOptions options;
  if (environment != nullptr) {
    options.env = environment;
  }
  options.create_if_missing = create;
  options.create_missing_column_families = create;
  options.db_write_buffer_size = memory;
  options.max_total_wal_size = 2 * memory;
  options.max_open_files = 256;
  options.max_file_opening_threads = 1;  // or each opening starts and ends a hundred threads
  options.max_background_jobs = 2;
  options.max_bgerror_resume_count = 0;  // Tree::recover() is the only way back
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.info_log = std::make_shared<NoMessages>();
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

}  // namespace

Error from_rocksdb(const rocksdb::Status& status, std::string_view what, const std::string& path) {
  const std::string said = status.ToString();
  const auto error = [&](int code, std::string_view remedy) {
    return Error{code, fmt::format("{} the index database {} failed: {}; {}", what, path, said, remedy)};
  };
  // RocksDB keeps no errno, but the system's words for it.
  const auto says = [&](int code) { return said.find(std::generic_category().message(code)) != std::string::npos; };
  if (says(EROFS)) {
    return error(EROFS, "the store's disk is read-only: see the messages of the kernel, and make it writable again");
  }
  if (says(EDQUOT)) {
    return error(EDQUOT, "raise the quota or free space on the store's disk; writing goes on by itself then");
  }
  if (status.IsNoSpace() || status.subcode() == rocksdb::Status::kNoSpace || says(ENOSPC)) {
    return error(ENOSPC, "free space on the store's disk; writing goes on by itself then");
  }
  if (status.IsCorruption()) {
    return error(EIO, "the disk returned other bytes than were written there; restore the store from a copy");
  }
  if (said.find("lock ") != std::string::npos && said.find("LOCK") != std::string::npos) {
    return error(EBUSY, "another program has this database open; end it first");
  }
  return error(EIO, "look at the disk's health and at the messages of the kernel");
}

/// Keeps the database from being reopened while it is in use. A thread that already reads may read again at once.
class Tree::Guard {
 public:
  explicit Guard(Tree& tree) : tree_(tree), before_(reading) {
    std::unique_lock lock(tree.mutex_);
    if (reading != &tree) {
      tree.idle_.wait(lock, [&] { return !tree.reopening_; });
    }
    ++tree.users_;
    reading = &tree;
  }
  ~Guard() {
    reading = before_;
    const std::lock_guard lock(tree_.mutex_);
    --tree_.users_;
    if (tree_.users_ == 0 && tree_.reopening_) {
      tree_.idle_.notify_all();
    }
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Tree& tree_;
  const Tree* before_;
};

Tree::Tree(TreeOptions options)
    : options_(std::move(options)),
      mark_(options_.device, options_.path),
      tables_(std::make_shared<TableMark>(options_.device, options_.path)) {}

Tree::~Tree() { close_database(); }

Result<std::unique_ptr<Tree>> Tree::open(const TreeOptions& options) {
  auto tree = std::unique_ptr<Tree>(new Tree(options));
  if (options.file_system) {
    tree->environment_ = rocksdb::NewCompositeEnv(options.file_system);
  }
  if (!options.create) {
    VARVE_TRY(tree->check_properties());
    tree->same_run_ = tree->mark_.written_in_this_run();
    VARVE_TRY(tree->check_loss());
  }
  VARVE_TRY(tree->open_database(options.read_only, options.create));
  return tree;
}

/// Replays the log without changing anything, and holds what comes out, and the tables that there are, against the
/// marks.
Status Tree::check_loss() {
  const auto promised = mark_.promised();
  VARVE_ASSIGN(const bool logs, has_log());
  const bool replay = promised && logs;
  if (!replay && !tables_->promises()) {
    return {};
  }
  VARVE_TRY(open_database(true, false));
  const uint64_t found = database_->GetLatestSequenceNumber();
  const std::vector<uint64_t> tables = tables_->missing(*database_);
  close_database();
  if ((!replay || found >= *promised) && tables.empty()) {
    return {};
  }
  if (!options_.accept_loss) {
    constexpr std::string_view kRemedy =
        "Restore the store from a copy, or go on without them by varve mount --accept-loss";
    return tables.empty()
               ? Error{EUCLEAN, fmt::format("the log of the index database {} is damaged: {} of the last changes that "
                                            "were written cannot be read. {} (what is left of the log is kept then)",
                                            options_.path, *promised - found, kRemedy)}
               : Error{EUCLEAN, fmt::format("the manifest of the index database {} is damaged: it does not name {} of "
                                            "its tables, {:06}.sst first. {} (they are kept then)",
                                            options_.path, tables.size(), tables.front(), kRemedy)};
  }
  if (!options_.read_only) {
    VARVE_TRY(keep_lost(found, tables));
    mark_.reset(found);
  }
  return {};
}

/// The same for the tables alone, of a database that is about to be opened again.
Status Tree::check_tables() {
  VARVE_TRY(open_database(true, false));
  const std::vector<uint64_t> tables = tables_->missing(*database_);
  if (tables.empty()) {
    close_database();
    return {};
  }
  return Error{EUCLEAN, fmt::format("the manifest of the index database {} is damaged: it does not name {} of its "
                                    "tables; unmount the store, and restore it from a copy",
                                    options_.path, tables.size())};
}

/// Whether there is something to replay: after an orderly end, there is not.
Result<bool> Tree::has_log() {
  VARVE_ASSIGN(const auto names, options_.device->list(options_.path));
  for (const std::string& name : names) {
    if (name.ends_with(".log")) {
      VARVE_ASSIGN(const auto file, options_.device->open(options_.path + "/" + name, Device::Mode::read));
      VARVE_ASSIGN(const uint64_t size, file->size());
      if (size > 0) {
        return true;
      }
    }
  }
  return false;
}

Status Tree::keep_lost(uint64_t sequence, const std::vector<uint64_t>& tables) {
  const std::string kept = fmt::format("{}-lost-{}", options_.path, sequence);
  VARVE_TRY(options_.device->make_directory(kept));
  VARVE_ASSIGN(const auto names, options_.device->list(options_.path));
  for (const std::string& name : names) {
    const bool lost = name.ends_with(".sst") && std::ranges::binary_search(tables, table_number(name));
    if (!lost && !name.ends_with(".log") && !name.starts_with("MANIFEST-")) {
      continue;
    }
    VARVE_ASSIGN(const auto from, options_.device->open(options_.path + "/" + name, Device::Mode::read));
    VARVE_ASSIGN(const auto to, options_.device->open(kept + "/" + name, Device::Mode::create));
    std::vector<std::byte> part(size_t{1} << 20);
    for (uint64_t at = 0;;) {
      VARVE_ASSIGN(const size_t got, from->read(at, part));
      if (got == 0) {
        break;
      }
      VARVE_TRY(to->write(at, std::span(part).first(got)));
      at += got;
    }
    VARVE_TRY(to->sync());
  }
  return options_.device->sync_directory(kept);
}

/// Before RocksDB opens the database. Those that are promised: others may be of a flush that a power cut ended.
Status Tree::check_properties() {
  for (const uint64_t number : tables_->promised()) {
    const Status whole = check_table(*options_.device, fmt::format("{}/{:06}.sst", options_.path, number));
    if (!whole.ok() && whole.error().code == EUCLEAN) {
      return whole;  // what cannot be opened or read, RocksDB will tell
    }
  }
  return {};
}

Status Tree::open_database(bool read_only, bool create) {
  rocksdb::DBOptions options = database_options(environment_.get(), create, options_.memory);
  if (!read_only) {
    options.listeners.push_back(tables_);
  }
  const auto cache = rocksdb::NewLRUCache(kBlockCache);
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (size_t i = 0; i < kFamilies; ++i) {
    families.emplace_back(kNames[i], family_options(static_cast<Family>(i), cache));
  }
  rocksdb::DB* database = nullptr;
  const rocksdb::Status status =
      read_only ? rocksdb::DB::OpenForReadOnly(options, options_.path, families, &handles_, &database)
                : rocksdb::DB::Open(options, options_.path, families, &handles_, &database);
  if (!status.ok()) {
    handles_.clear();
    return from_rocksdb(status, "opening", options_.path);
  }
  database_.reset(database);
  if (!read_only) {
    tables_->promise(*database_);
  }
  return {};
}

void Tree::close_database() {
  if (!database_) {
    return;
  }
  for (auto* family : handles_) {
    database_->DestroyColumnFamilyHandle(family);
  }
  handles_.clear();
  database_->Close();
  database_.reset();
}

Result<std::optional<std::string>> Tree::get(Family family, std::string_view key) {
  const Guard guard(*this);
  if (!database_) {
    return Error{EIO, fmt::format("the index database {} is closed after a failure", options_.path)};
  }
  std::string value;
  const rocksdb::Status status = database_->Get(rocksdb::ReadOptions(), handle(family), slice(key), &value);
  if (status.IsNotFound()) {
    return std::optional<std::string>();
  }
  if (!status.ok()) {
    return from_rocksdb(status, "reading", options_.path);
  }
  return std::optional<std::string>(std::move(value));
}

Status Tree::scan(Family family, std::string_view prefix, std::string_view from, const Visit& visit) {
  const Guard guard(*this);
  if (!database_) {
    return Error{EIO, fmt::format("the index database {} is closed after a failure", options_.path)};
  }
  const std::string end = prefix_end(prefix);
  const rocksdb::Slice end_slice = slice(end);
  rocksdb::ReadOptions options;
  if (!end.empty()) {
    options.iterate_upper_bound = &end_slice;
  }
  const std::unique_ptr<rocksdb::Iterator> row(database_->NewIterator(options, handle(family)));
  for (row->Seek(slice(std::max(prefix, from))); row->Valid(); row->Next()) {
    VARVE_ASSIGN(const bool more, visit(row->key().ToStringView(), row->value().ToStringView()));
    if (!more) {
      return {};
    }
  }
  if (!row->status().ok()) {
    return from_rocksdb(row->status(), "reading", options_.path);
  }
  return {};
}

void Tree::put(rocksdb::WriteBatch& batch, Family family, std::string_view key, std::string_view value) const {
  batch.Put(handle(family), slice(key), slice(value));
}

void Tree::erase(rocksdb::WriteBatch& batch, Family family, std::string_view key) const {
  batch.Delete(handle(family), slice(key));
}

Error Tree::note_failure(const rocksdb::Status& status, std::string_view what) {
  Error error = from_rocksdb(status, what, options_.path);
  const std::lock_guard lock(mutex_);
  failure_ = error;
  next_try_ = std::chrono::steady_clock::now();
  return error;
}

/// After a failed write the database's log must be left alone until recover(): Debian's RocksDB asserts that.
Status Tree::check_usable() {
  const std::lock_guard lock(mutex_);
  return failure_ ? Status(*failure_) : Status();
}

Status Tree::write(rocksdb::WriteBatch& batch) {
  VARVE_TRY(check_usable());
  const Guard guard(*this);
  const rocksdb::Status status = database_->Write(rocksdb::WriteOptions(), &batch);
  if (!status.ok()) {
    return note_failure(status, "writing");
  }
  mark_.written(database_->GetLatestSequenceNumber());
  return {};
}

Status Tree::sync() {
  const uint64_t stamp = syncs_.stamp();
  return syncs_.sync(stamp, [this]() -> Status {
    VARVE_TRY(check_usable());
    const Guard guard(*this);
    if (!database_) {
      return Error{EIO, fmt::format("the index database {} is closed after a failure", options_.path)};
    }
    const uint64_t sequence = database_->GetLatestSequenceNumber();
    const rocksdb::Status status = database_->SyncWAL();
    if (!status.ok()) {
      return note_failure(status, "syncing");
    }
    mark_.synced(sequence);
    return {};
  });
}

Result<bool> Tree::recover(bool at_once) {
  std::unique_lock lock(mutex_);
  if (!failure_) {
    return false;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now < next_try_ && !at_once) {
    return *failure_;
  }
  next_try_ = now + kReopenPause;
  const auto space = options_.device->space(options_.path);
  if (!at_once && space.ok() && space->blocks_available * space->block_size < kReopenSpace) {
    return *failure_;
  }
  reopening_ = true;
  if (!idle_.wait_for(lock, kDrainPatience, [&] { return users_ == 0; })) {
    reopening_ = false;
    idle_.notify_all();
    return *failure_;
  }
  lock.unlock();
  close_database();
  const Status whole = check_properties();
  Status status = whole.ok() ? check_tables() : whole;
  if (status.ok()) {
    status = open_database(false, false);
  }
  if (!status.ok() && !database_ && whole.ok()) {
    (void)open_database(true, false);  // so that reads go on; get() and scan() say so if even this failed
  }
  lock.lock();
  reopening_ = false;
  idle_.notify_all();
  if (!status.ok()) {
    failure_ = status.error();
    return *failure_;
  }
  failure_.reset();
  syncs_.mend();
  return true;
}

Status Tree::checkpoint(const std::string& path) {
  {
    const Guard guard(*this);
    rocksdb::Checkpoint* made = nullptr;
    rocksdb::Status status = rocksdb::Checkpoint::Create(database_.get(), &made);
    const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
    if (status.ok()) {
      status = checkpoint->CreateCheckpoint(path);
    }
    if (!status.ok()) {
      return from_rocksdb(status, "copying", options_.path);
    }
  }
  TreeOptions options = options_;
  options.path = path;
  options.read_only = true;
  options.create = options.accept_loss = false;
  VARVE_ASSIGN(const auto copy, Tree::open(options));
  copy->tables_->promise(*copy->database_);
  return {};
}

Status Tree::flush() {
  VARVE_TRY(check_usable());
  const Guard guard(*this);
  if (!database_) {
    return {};
  }
  const rocksdb::Status status = database_->Flush(rocksdb::FlushOptions(), handles_);
  if (!status.ok()) {
    return note_failure(status, "flushing");
  }
  tables_->promise(*database_);
  return {};
}

std::vector<Tree::Table> Tree::tables() {
  const Guard guard(*this);
  std::vector<Table> tables;
  if (database_) {
    std::vector<rocksdb::LiveFileMetaData> files;
    database_->GetLiveFilesMetaData(&files);
    for (const auto& file : files) {
      tables.push_back({file.column_family_name, file.db_path + file.name, file.num_entries});
    }
  }
  return tables;
}

uint64_t Tree::size_estimate() {
  const Guard guard(*this);
  uint64_t total = 0;
  if (!database_) {
    return total;
  }
  for (auto* family : handles_) {
    for (const auto& property :
         {rocksdb::DB::Properties::kTotalSstFilesSize, rocksdb::DB::Properties::kCurSizeAllMemTables}) {
      uint64_t bytes = 0;
      if (database_->GetIntProperty(family, property, &bytes)) {
        total += bytes;
      }
    }
  }
  return total;
}

}  // namespace varve::index
