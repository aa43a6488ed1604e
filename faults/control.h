// The fault layer's control files under .varve/faults/.
#pragma once

#include <mutex>

#include "faults/injector.h"
#include "fs/control_folder.h"

namespace varve::faults {

///   arm       written: a schedule in TOML, in force once close(2) returns; read: the schedule in force
///   disarm    written, anything: no fault from now on
///   status    read: JSON; `refused` is the sentence of the last command that failed
///   journal   read: what was injected since the last arming, JSON lines
///   replay    written: a journal
///   mark      written: a word for where a program is, for from_mark and to_mark
/// Thread-safe.
class Control final : public fs::ControlFolder {
 public:
  /// Null: the mount was started so that nothing can be armed; commands get EPERM.
  explicit Control(Injector* injector) : injector_(injector) {}
  std::string_view name() const override { return "faults"; }
  const std::vector<std::string>& files() const override;
  Result<std::string> read(size_t file) override;
  Status write(size_t file, std::string_view text) override;

 private:
  Status obey(size_t file, std::string_view text);

  Injector* const injector_;
  std::mutex mutex_;
  std::string refused_;
};

}  // namespace varve::faults
