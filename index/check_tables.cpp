// The files of the tree itself. A table that cannot be read in full may have held anything, deletions too: whatever the
// rest of the rows says is then no ground for repairs.
#include <fmt/format.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>

#include "index/check_state.h"

namespace varve::index {
namespace {

/// How many rows can be read from the front and from the back before something is damaged.
std::string readable_part(rocksdb::SstFileReader& table, uint64_t rows) {
  const std::unique_ptr<rocksdb::Iterator> row(table.NewIterator(rocksdb::ReadOptions()));
  uint64_t front = 0;
  for (row->SeekToFirst(); row->Valid(); row->Next()) {
    ++front;
  }
  if (row->status().ok()) {
    return fmt::format("all its {} rows can be read", front);
  }
  uint64_t back = 0;
  const std::unique_ptr<rocksdb::Iterator> from_back(table.NewIterator(rocksdb::ReadOptions()));
  for (from_back->SeekToLast(); from_back->Valid(); from_back->Prev()) {
    ++back;
  }
  return rows > 0 ? fmt::format("of its {} rows the first {} and the last {} can be read", rows, front, back)
                  : fmt::format("its first {} and its last {} rows can be read", front, back);
}

/// The database's tables; rows of those in its directory are not known while it cannot be opened.
Result<std::vector<Tree::Table>> tables_of(CheckState& state) {
  if (state.tree) {
    return state.tree->tables();
  }
  const std::string directory = state.path + "/db";
  VARVE_ASSIGN(const auto names, state.device->list(directory));
  std::vector<Tree::Table> tables;
  for (const std::string& name : names) {
    if (name.ends_with(".sst")) {
      tables.push_back({"", directory + "/" + name, 0});
    }
  }
  return tables;
}

}  // namespace

Result<bool> check_tables(CheckState& state) {
  bool whole = true;
  VARVE_ASSIGN(const auto tables, tables_of(state));
  for (const Tree::Table& table : tables) {
    rocksdb::SstFileReader reader((rocksdb::Options()));
    rocksdb::Status status = reader.Open(table.path);
    const bool opened = status.ok();
    if (opened) {
      status = reader.VerifyChecksum();
    }
    if (status.ok()) {
      continue;
    }
    whole = false;
    const std::string rows = table.rows > 0 ? fmt::format("none of its {} rows", table.rows) : std::string("nothing");
    state.problem("table", table.path,
                  fmt::format("this table of the index database{} is damaged: {}; {}",
                              table.family.empty() ? "" : fmt::format(" (rows of family {})", table.family),
                              status.ToString(), opened ? readable_part(reader, table.rows) : rows + " can be read"),
                  "restore the store from a copy: nothing can be repaired without all rows, since those that are lost "
                  "may be erasures. Without a copy, mount it with -o ro and copy what can be read");
  }
  return whole;
}

}  // namespace varve::index
