// SPDX-License-Identifier: MIT
// Bars of a timeline, of which there are never too many.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "capture/report.hpp"

namespace rkchain::capture {

/// Keeps at most ReportLimits::bars: beyond that, bars of a core that lie within a
/// short time become one, so that long pauses stay.
class Timeline {
 public:
  /// @param bar its begin is not before that of the last one of the core by much
  void add(const Bar& bar) {
    std::vector<Bar>& lane = lane_of(bar.core);
    if (!lane.empty() && joined_ns_ != 0 && near(lane.back(), bar)) {
      join(lane.back(), bar);
      return;
    }
    lane.push_back(bar);
    count_++;
    while (count_ > ReportLimits::bars) coarser();
  }

  [[nodiscard]] std::vector<Bar> bars() const {
    std::vector<Bar> all;
    for (const auto& [core, lane] : lanes_) all.insert(all.end(), lane.begin(), lane.end());
    return all;
  }
  /// What lies within this time became one bar; 0: nothing did.
  [[nodiscard]] std::uint64_t joined_ns() const { return joined_ns_; }

 private:
  std::vector<Bar>& lane_of(std::uint32_t core) {
    const bool room = lanes_.contains(core) || lanes_.size() < ReportLimits::core_masks;
    return room ? lanes_[core] : lanes_.begin()->second;
  }
  [[nodiscard]] bool near(const Bar& a, const Bar& b) const {
    return std::max(a.end_ns, b.end_ns) - std::min(a.begin_ns, b.begin_ns) <= joined_ns_;
  }
  static void join(Bar& a, const Bar& b) {
    a.begin_ns = std::min(a.begin_ns, b.begin_ns);
    a.end_ns = std::max(a.end_ns, b.end_ns);
    a.submits += b.submits;
  }

  void coarser() {
    joined_ns_ = std::max<std::uint64_t>(2 * joined_ns_, 1000);
    count_ = 0;
    for (auto& [core, lane] : lanes_) {
      std::sort(lane.begin(), lane.end(),
                [](const Bar& a, const Bar& b) { return a.begin_ns < b.begin_ns; });
      std::size_t kept = 0;
      for (std::size_t i = 1; i < lane.size(); i++) {
        if (near(lane[kept], lane[i]))
          join(lane[kept], lane[i]);
        else
          lane[++kept] = lane[i];
      }
      lane.resize(std::min(lane.size(), kept + 1));
      count_ += lane.size();
    }
  }

  std::map<std::uint32_t, std::vector<Bar>> lanes_;
  std::size_t count_ = 0;
  std::uint64_t joined_ns_ = 0;
};

}  // namespace rkchain::capture
