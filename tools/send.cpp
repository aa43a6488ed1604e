// varve send: a snapshot as a stream, whole or what it has more than an earlier one.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <tuple>

#include "fs/serial.h"
#include "index/snapshot.h"
#include "tools/commands.h"
#include "tools/report.h"
#include "tools/send_stream.h"
#include "tools/store_place.h"

namespace varve::tools {
namespace {

using index::ObjectId;
using index::RecordInfo;
using index::RecordKey;

constexpr size_t kManifestPiece = size_t{1} << 20;

struct Arguments {
  std::string where, name, since;
};

/// Where a record was first put, in the store that is sent.
using Origin = std::tuple<ObjectId, uint32_t, uint8_t, uint64_t>;

Origin origin_of(const RecordInfo& record) {
  return {record.origin, record.origin_key.region, record.origin_key.level, record.origin_key.brick};
}

/// A record that the receiver has.
struct Known {
  const Digest* object;
  RecordKey key;
};

void put_key(fs::SerialWriter& out, const RecordKey& key) {
  out.number(key.region);
  out.number(key.level);
  out.number(key.brick);
}

std::string_view text_of(const Digest& digest) { return {digest.data(), digest.size()}; }
std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Sender {
 public:
  Sender(index::Index& index, const Manifest& manifest, const Manifest& before)
      : index_(index), manifest_(manifest), before_(before), out_(stdout) {
    std::ranges::copy_if(manifest.objects, std::back_inserter(fresh_),
                         [&](const auto& one) { return !before.objects.contains(one.first); });
  }

  Status send(StreamBegin begin, index::Index* since) {
    if (since != nullptr && !fresh_.empty()) {
      VARVE_TRY(find_known(*since));
    }
    VARVE_ASSIGN(begin.bytes, bytes_to_send());
    VARVE_TRY(out_.put(FrameKind::begin, serialise(begin)));
    Progress progress("sending", begin.bytes);
    for (const auto& [digest, object] : fresh_) {
      VARVE_TRY(send_object(digest, object, progress));
    }
    const std::string_view text = manifest_.text;
    for (size_t at = 0; at < text.size(); at += kManifestPiece) {
      VARVE_TRY(out_.put(FrameKind::manifest, text.substr(at, kManifestPiece)));
    }
    VARVE_TRY(out_.put(FrameKind::end, text_of(digest_of(text))));
    return out_.flush();
  }

 private:
  /// Where the records of new objects lie in old ones: those are told by their origins, which sharing keeps.
  Status find_known(index::Index& since) {
    for (const auto& [digest, object] : before_.objects) {
      VARVE_TRY(since.records(object, [&, known = &digest](const RecordInfo& record) {
        known_.try_emplace(origin_of(record), Known{known, record.key});
        return true;
      }));
    }
    return {};
  }

  Result<uint64_t> bytes_to_send() {
    uint64_t bytes = 0;
    for (const auto& [digest, object] : fresh_) {
      VARVE_TRY(index_.records(object, [&](const RecordInfo& record) {
        bytes += known_.contains(origin_of(record)) ? 0 : record.length;
        return true;
      }));
    }
    return bytes;
  }

  Status send_object(const Digest& digest, ObjectId object, Progress& progress) {
    VARVE_ASSIGN(const std::string layout, index_.layout(object));
    fs::SerialWriter head;
    head.text(text_of(digest));
    head.text(layout);
    VARVE_TRY(out_.put(FrameKind::object, head.take_text()));
    std::vector<RecordInfo> records;
    VARVE_TRY(index_.records(object, [&](const RecordInfo& record) {
      records.push_back(record);
      return true;
    }));
    for (const RecordInfo& record : records) {
      fs::SerialWriter row;
      put_key(row, record.key);
      if (const auto known = known_.find(origin_of(record)); known != known_.end()) {
        row.text(text_of(*known->second.object));
        put_key(row, known->second.key);
        VARVE_TRY(out_.put(FrameKind::shared, row.take_text()));
        continue;
      }
      VARVE_ASSIGN(const auto bytes, index_.record(object, record.key));
      row.text(text_of(bytes));
      VARVE_TRY(out_.put(FrameKind::record, row.take_text()));
      progress.advance(record.length);
    }
    return out_.put(FrameKind::object_end, "");
  }

  index::Index& index_;
  const Manifest& manifest_;
  const Manifest& before_;
  FrameWriter out_;
  std::vector<std::pair<Digest, ObjectId>> fresh_;  ///< contents that the receiver lacks
  std::map<Origin, Known> known_;
};

struct Opened {
  std::unique_ptr<index::Index> index;
  Manifest manifest;
};

Result<Opened> open_snapshot(const std::string& store, const std::string& name) {
  VARVE_ASSIGN(const std::string path, index::find_snapshot(store, name));
  index::IndexOptions options;
  options.read_only = true;
  Opened opened;
  VARVE_ASSIGN(opened.index, index::Index::open(path, options));
  VARVE_ASSIGN(opened.manifest, manifest_of(*opened.index));
  return opened;
}

Status send(const Arguments& arguments) {
  if (::isatty(STDOUT_FILENO) != 0) {
    return Error{EINVAL,
                 "the stream goes to standard output, which is a terminal: pipe it into varve receive, or "
                 "redirect it into a file"};
  }
  VARVE_ASSIGN(const StorePlace place, find_store(arguments.where));
  VARVE_ASSIGN(const Opened now, open_snapshot(place.store, arguments.name));
  StreamBegin begin;
  begin.name = arguments.name;
  Opened before;
  if (!arguments.since.empty()) {
    VARVE_ASSIGN(before, open_snapshot(place.store, arguments.since));
    begin.since = arguments.since;
    begin.since_manifest = digest_of(before.manifest.text);
  }
  return Sender(*now.index, now.manifest, before.manifest).send(begin, before.index.get());
}

}  // namespace

void add_send(CLI::App& app, int& status) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("send", "Write a snapshot to standard output, for varve receive");
  command->footer(
      "What is sent is as it is stored: nothing is encoded again. With --since, only records that the earlier\n"
      "snapshot lacks. Every frame has a checksum.\n"
      "Examples:\n  varve send ~/data monday | ssh host varve receive /backup/store\n"
      "  varve send ~/data tuesday --since monday | ssh host varve receive /backup/store\n"
      "  varve send ~/data monday > monday.varve");
  command->add_option("WHERE", arguments->where, "The store, or any path in a mount of it")->required();
  command->add_option("NAME", arguments->name, "Of the snapshot")->required();
  command->add_option("--since", arguments->since, "A snapshot that was received before");
  command->callback([arguments, &status] { status = finish(send(*arguments)); });
}

}  // namespace varve::tools
