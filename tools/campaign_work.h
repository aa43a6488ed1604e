// What the parts of a campaign share that see one run: its folder, store and mount, and what is done with them.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/campaign.h"
#include "tools/process.h"

namespace varve::tools {

/// What an analysis that worked adds to what it printed.
inline constexpr std::string_view kGoodEnd = "(exit status 0, signal 0)\n";

/// All of a file; empty if it cannot be read.
std::string text_of(const std::string& path);
std::string last_line(std::string_view text);
/// What is below a folder and no folder itself, by relative path; .varve is none of it.
Result<std::vector<std::string>> files_in(const std::string& folder);
/// Links that lead to no regular file are copied as links (those into `from` lead into `to`), FIFOs and the like are
/// made anew.
Status copy_tree(const std::string& from, const std::string& to);

/// What a path is for whoever reads it.
enum class Kind : uint8_t {
  missing,
  unreadable,  ///< it cannot be told
  content,     ///< a regular file, or a link to one
  link,        ///< to nothing, or to what is no regular file
  special,     ///< a FIFO, a socket, a device, a folder
};
Kind kind_of(const std::string& path);
/// Where a link leads; what lies in `root` from there, so that links of two copies of a folder compare equal.
std::string link_text(const std::string& path, const std::string& root);

/// Runs the program that `key` of the campaign's file names. EINTR: `stop` became true.
Result<Ending> run_word(std::string_view key, const Program& program, std::chrono::milliseconds limit,
                        const std::atomic<bool>& stop);

/// What a run has on the disk. Taken away at the end.
struct CampaignRunner::Work {
  std::string folder, store, root, log;
  const std::string key;  ///< without it nobody else can arm this mount
  bool keep = false;
  std::optional<Child> daemon;
  std::optional<Ending> ending;  ///< of the program
  std::string journal;
  bool daemon_died = false;

  explicit Work(const std::string& place);
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  std::string journal_file() const { return store + "/faults.jsonl"; }
  std::string control(const std::string& name) const { return root + "/.varve/" + name; }
  /// To a control file of the fault layer: in effect when this returns.
  Status tell(const std::string& command, const std::string& text) const;
  Status mount();
  /// Ends a fault that holds programs up; if that cannot be done, the daemon.
  void let_go();
  /// Unmounts, and waits until the daemon has ended. Nothing: it did not, and was killed.
  std::optional<Ending> stop();
  /// Takes the place of a daemon that ended.
  Status mount_again();
};

}  // namespace varve::tools
