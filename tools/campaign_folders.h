// The folders that a campaign has to itself: results, and the scratch folder of its stores and mounts. Each is locked,
// so that what a campaign left behind that was killed can be told from what one uses, and taken away.
#pragma once

#include <memory>
#include <string>

#include "codec/result.h"
#include "index/file_lock.h"

namespace varve::tools {

/// varve-campaign-PID in a folder that is there; goes at the end.
class ScratchFolder {
 public:
  /// `wanted`: the folder to make it in; empty: TMPDIR or /tmp.
  explicit ScratchFolder(const std::string& wanted);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  /// Makes it, and takes away those of this user's campaigns that were killed, with their mounts and daemons.
  Status take();
  const std::string& path() const { return path_; }

 private:
  const std::string base_, path_;
  std::unique_ptr<index::FileLock> lock_;
};

/// The folder of results, which others keep out of while this lives. What was made of it goes again unless there is a
/// golden run in the end.
class ResultsFolder {
 public:
  explicit ResultsFolder(std::string path) : path_(std::move(path)) {}
  ~ResultsFolder();
  ResultsFolder(const ResultsFolder&) = delete;
  ResultsFolder& operator=(const ResultsFolder&) = delete;

  /// Ends mounts in it that a killed campaign left. EBUSY: another process has it.
  Status take();
  /// For what runs leave.
  Status prepare() const;

 private:
  const std::string path_;
  std::unique_ptr<index::FileLock> lock_;
};

}  // namespace varve::tools
