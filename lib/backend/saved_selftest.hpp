// SPDX-License-Identifier: MIT
// What the self-test has proven on this machine, kept in a file for programs that use the stock
// driver.  The module has a parameter for the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/system.hpp"
#include "rkchain/types.hpp"

namespace rkchain {

class ProvenModes {
 public:
  ProvenModes() = default;
  /// @param driver version that it was proven with, e.g. "0.9.8"
  /// @param board identity of the machine, see board_identity()
  ProvenModes(std::vector<Mode> modes, std::string driver, std::string board);

  /// Of the first file that there is; none when it is about another driver or board, or is not
  /// what was written.
  static ProvenModes load(const System& system, const std::string& driver);
  /// The text of the file, JSON.
  [[nodiscard]] std::string text() const;

  [[nodiscard]] bool contains(Mode mode) const;
  [[nodiscard]] std::optional<Mode> best() const;
  [[nodiscard]] const std::vector<Mode>& modes() const noexcept { return modes_; }

 private:
  std::vector<Mode> modes_;
  std::string driver_;
  std::string board_;
};

/// Where the file is looked for, and in that order: the one that RKCHAIN_SELFTEST_FILE names, and
/// no other; else the user's below XDG_STATE_HOME, and the machine's below /var/lib.
[[nodiscard]] std::vector<std::string> selftest_files(const System& system);

/// What the device tree or the operating system says that machine it is; may be empty.
[[nodiscard]] std::string board_identity(const System& system);

}  // namespace rkchain
