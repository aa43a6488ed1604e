// The fault layer's control files under .varve/faults/.
#pragma once

#include <mutex>

#include "faults/injector.h"
#include "fs/control_folder.h"

namespace varve::faults {

///   arm       written: a schedule in TOML, in force once close(2) returns; read: the schedule in force
///   disarm    written, anything: no fault from now on
///   status    read: JSON; `refused` is the sentence of the last command that failed
///   journal   read: what was injected since the last arming, JSON lines; `log` is the same
///   replay    written: a journal
///   mark      written: a word for where a program is, for from_mark and to_mark
/// Thread-safe.
class Control final : public fs::ControlFolder {
 public:
  /// A null `injector`: the mount was started so that nothing can be armed; commands get EPERM. With a `key`, arm,
  /// disarm and replay are for who knows it (with_key()): a campaign has this mount; others get EBUSY.
  explicit Control(Injector* injector, std::string_view key = {});
  std::string_view name() const override { return "faults"; }
  const std::vector<std::string>& files() const override;
  Result<std::string> read(size_t file) override;
  Status check(size_t file, std::string_view text) override;
  Status write(size_t file, std::string_view text) override;

  /// The variable of the environment by which daemons and commands are given the key.
  static constexpr const char* kKeyVariable = "VARVE_FAULTS_KEY";
  static std::string with_key(std::string_view key, std::string_view text);

 private:
  Status may(size_t file) const;
  bool keyed(size_t file) const;
  Status obey(size_t file, std::string_view text);
  void note_refusal(const Status& done);

  Injector* const injector_;
  const std::string prefix_;  ///< of texts that are obeyed; empty: none is needed
  std::mutex mutex_;
  std::string refused_;
};

}  // namespace varve::faults
