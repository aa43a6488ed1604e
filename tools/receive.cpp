// varve receive: makes a store's files those of a snapshot that varve send wrote.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <map>

#include "fs/serial.h"
#include "index/snapshot.h"
#include "tools/commands.h"
#include "tools/report.h"
#include "tools/send_stream.h"

namespace varve::tools {
namespace {

using index::ObjectId;
using index::RecordKey;

struct Arguments {
  std::string store;
  bool replace = false;
};

Error malformed() { return {EBADMSG, "the stream makes no sense: nothing was changed here; send it again"}; }

RecordKey get_key(fs::SerialReader& in) {
  RecordKey key;
  key.region = static_cast<uint32_t>(in.number());
  key.level = static_cast<uint8_t>(in.number());
  key.brick = in.number();
  return key;
}

std::optional<Digest> get_digest(fs::SerialReader& in) {
  const std::string text = in.text();
  Digest digest{};
  if (in.failed() || text.size() != digest.size()) {
    return std::nullopt;
  }
  std::ranges::copy(text, digest.begin());
  return digest;
}

class Receiver {
 public:
  Receiver(index::Index& index, FrameReader& in, const Manifest& before)
      : index_(index), in_(in), made_{"", before.objects} {}

  /// Reads all, and changes no file yet.
  Status read(uint64_t bytes) {
    Progress progress("receiving", bytes);
    for (;;) {
      VARVE_ASSIGN(const Frame frame, in_.get());
      switch (frame.kind) {
        case FrameKind::object:
          VARVE_TRY(read_object(frame.bytes, progress));
          break;
        case FrameKind::manifest:
          made_.text += frame.bytes;
          break;
        case FrameKind::end: {
          const Digest digest = digest_of(made_.text);
          return frame.bytes == std::string_view(digest.data(), digest.size()) ? Status() : malformed();
        }
        default:
          return malformed();
      }
    }
  }

  Status apply() { return replace_tree(index_, made_, fresh_); }
  const std::string& manifest() const { return made_.text; }

 private:
  Status read_object(std::string_view head, Progress& progress) {
    fs::SerialReader in(head);
    const auto digest = get_digest(in);
    const std::string layout = in.text();
    if (!digest.has_value() || in.failed() || !in.at_end()) {
      return malformed();
    }
    const bool here = made_.objects.contains(*digest);  // a whole stream to a store that has some of it
    std::unique_ptr<index::ObjectWriter> writer;
    if (!here) {
      VARVE_ASSIGN(writer, index_.begin_object());
    }
    for (;;) {
      VARVE_ASSIGN(const Frame frame, in_.get());
      if (frame.kind == FrameKind::object_end) {
        break;
      }
      if (frame.kind != FrameKind::record && frame.kind != FrameKind::shared) {
        return malformed();
      }
      if (!here) {
        VARVE_TRY(frame.kind == FrameKind::record ? put(*writer, frame.bytes) : share(*writer, frame.bytes));
      }
      progress.advance(frame.kind == FrameKind::record ? frame.bytes.size() : 0);
    }
    if (here) {
      return {};
    }
    VARVE_TRY(writer->finish());
    made_.objects.emplace(*digest, writer->object());
    fresh_.emplace(writer->object(), layout);
    writers_.push_back(std::move(writer));
    return {};
  }

  static Status put(index::ObjectWriter& writer, std::string_view row) {
    fs::SerialReader in(row);
    const RecordKey key = get_key(in);
    const std::string bytes = in.text();
    if (in.failed() || !in.at_end()) {
      return malformed();
    }
    return writer.put(key, std::as_bytes(std::span(bytes)));
  }

  Status share(index::ObjectWriter& writer, std::string_view row) {
    fs::SerialReader in(row);
    const RecordKey key = get_key(in);
    const auto digest = get_digest(in);
    const RecordKey there = get_key(in);
    const auto object = digest.has_value() ? made_.objects.find(*digest) : made_.objects.end();
    if (in.failed() || !in.at_end() || object == made_.objects.end() || fresh_.contains(object->second)) {
      return malformed();
    }
    return writer.share(object->second, there, key);
  }

  index::Index& index_;
  FrameReader& in_;
  std::map<ObjectId, std::string> fresh_;  ///< layouts of those that are not published
  std::vector<std::unique_ptr<index::ObjectWriter>> writers_;
  Manifest made_;  ///< of all contents that are here: those that no file has go when the tree is replaced
};

/// Whether the store is what the stream goes on from.
Status check_base(const Arguments& arguments, const StreamBegin& begin, index::Index& index, const Manifest& before) {
  VARVE_TRY(check_sealed(index));
  VARVE_TRY(index::check_new_snapshot(index.path(), begin.name));
  if (!begin.since.empty()) {
    return digest_of(before.text) == begin.since_manifest
               ? Status()
               : Error{EINVAL,
                       fmt::format("the stream goes on from snapshot {}, and the files of {} are others: receive "
                                   "that first, or send {} without --since and receive it with --replace",
                                   begin.since, index.path(), begin.name)};
  }
  bool empty = true;
  VARVE_TRY(index.list(index::kRootInode, 0, [&](const index::Dentry&) {
    empty = false;
    return false;
  }));
  return empty || arguments.replace
             ? Status()
             : Error{ENOTEMPTY, fmt::format("{} has files already: receive a stream that goes on from them (send "
                                            "--since), or give --replace to have them taken away",
                                            index.path())};
}

Status receive(const Arguments& arguments) {
  if (::isatty(STDIN_FILENO) != 0) {
    return Error{EINVAL, "the stream comes from standard input, which is a terminal: pipe varve send into this"};
  }
  FrameReader frames(stdin);
  VARVE_ASSIGN(const Frame first, frames.get());
  VARVE_ASSIGN(const StreamBegin begin, parse_begin(first.bytes));
  VARVE_ASSIGN(const auto index, index::Index::open(arguments.store, {}));
  VARVE_ASSIGN(const Manifest before, manifest_of(*index));
  VARVE_TRY(check_base(arguments, begin, *index, before));
  {
    Receiver receiver(*index, frames, before);
    VARVE_TRY(receiver.read(begin.bytes));
    VARVE_TRY(receiver.apply());
    VARVE_ASSIGN(const Manifest now, manifest_of(*index));
    if (now.text != receiver.manifest()) {
      return Error{EIO, fmt::format("what {} has now is not what was sent: run varve fsck, and receive it again with "
                                    "--replace",
                                    arguments.store)};
    }
  }
  VARVE_TRY(index->snapshot(begin.name));
  fmt::print("received {}: {} has its files, and a snapshot of that name\n", begin.name, arguments.store);
  return {};
}

}  // namespace

void add_receive(CLI::App& app, int& status) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("receive", "Make a store's files those that varve send writes");
  command->footer(
      "All or nothing: a stream that ends early or was changed on its way leaves the store as it was. The store must\n"
      "not be mounted; it is made if it is not there.\n"
      "Examples:\n  varve send ~/data monday | varve receive /backup/store\n"
      "  varve receive /backup/store < monday.varve");
  command->add_option("STORE", arguments->store, "The store")->required();
  command->add_flag("--replace", arguments->replace, "Take away what files the store has now");
  command->callback([arguments, &status] { status = finish(receive(*arguments)); });
}

}  // namespace varve::tools
