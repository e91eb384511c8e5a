// SPDX-License-Identifier: MIT
#include "capture/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace rkchain::capture {
namespace {

constexpr double width = 960;
constexpr double left = 90;
constexpr double right = width - 30;
constexpr double plot_height = 200;
constexpr double lane_height = 34;

/// XML takes neither markup nor control characters, and only well-formed UTF-8: ASCII is enough.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c >= ' ' && c <= '~' ? c : '?';
  }
  return result;
}

class Drawing {
 public:
  template <typename... T>
  void put(fmt::format_string<T...> format, T&&... args) {
    body_ += fmt::format(format, std::forward<T>(args)...);
  }
  void text(double x, double y, std::string_view anchor, std::string_view what,
            std::string_view kind = "small") {
    put("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", kind, x, y,
        anchor, escaped(what));
  }
  void rect(double x, double y, double w, double h, std::string_view kind, std::string_view title) {
    put("<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\">"
        "<title>{}</title></rect>\n",
        kind, x, y, w, h, escaped(title));
  }
  void line(double x1, double y1, double x2, double y2, std::string_view kind) {
    put("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, x1,
        y1, x2, y2);
  }
  [[nodiscard]] std::string document(double height, std::string_view title) const {
    return fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n<title>{2}</title>\n"
        "<style>text {{ font-family: sans-serif; fill: #222 }} .head {{ font-size: 16px; "
        "font-weight: bold }} .small {{ font-size: 12px }} .bar {{ fill: #3572b0 }} "
        ".axis {{ stroke: #444; stroke-width: 1 }} .grid {{ stroke: #ddd; stroke-width: 1 }}"
        "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fcfcfa\"/>\n{3}</svg>\n",
        width, height, escaped(title), body_);
  }

 private:
  std::string body_;
};

struct Column {
  std::string label;  ///< below it; may be empty
  std::string title;
  std::uint64_t count = 0;
};

/// 1, 2 or 5 times a power of ten, so that @p most takes about five.
double nice_step(double most) {
  const double raw = std::max(most, 1.0) / 5;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power) return std::max(1.0, factor * power);
  return std::max(1.0, 10 * power);
}

/// @return where the next drawing begins
double draw_columns(Drawing& to, double top, std::string_view head, std::string_view x_label,
                    const std::vector<Column>& columns) {
  to.text(left, top + 20, "start", head, "head");
  const double floor = top + 40 + plot_height;
  std::uint64_t most = 0;
  for (const Column& column : columns) most = std::max(most, column.count);
  const double step = nice_step(static_cast<double>(most));
  const double scale = plot_height / std::max(1.0, static_cast<double>(most));
  for (double value = 0; value <= static_cast<double>(most); value += step) {
    to.line(left, floor - value * scale, right, floor - value * scale, "grid");
    to.text(left - 6, floor - value * scale + 4, "end", fmt::format("{:.0f}", value));
  }
  const double pitch = (right - left) / std::max<double>(1, static_cast<double>(columns.size()));
  for (std::size_t i = 0; i < columns.size(); i++) {
    const double x = left + static_cast<double>(i) * pitch;
    const double height = static_cast<double>(columns[i].count) * scale;
    to.rect(x + 0.1 * pitch, floor - height, 0.8 * pitch, height, "bar", columns[i].title);
    if (!columns[i].label.empty()) to.text(x + pitch / 2, floor + 16, "middle", columns[i].label);
  }
  to.line(left, floor, right, floor, "axis");
  to.line(left, top + 40, left, floor, "axis");
  if (columns.empty()) to.text((left + right) / 2, floor - 20, "middle", "nothing to show");
  to.text((left + right) / 2, floor + 36, "middle", x_label);
  to.put(
      "<text class=\"small\" transform=\"translate(20 {:.1f}) rotate(-90)\" "
      "text-anchor=\"middle\">submits</text>\n",
      floor - plot_height / 2);
  return floor + 60;
}

std::vector<Column> task_columns(const Stats& stats) {
  constexpr std::size_t most = 32;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> counts(stats.tasks_per_submit.of.begin(),
                                                              stats.tasks_per_submit.of.end());
  std::stable_sort(counts.begin(), counts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::uint64_t others = stats.tasks_per_submit.others;
  for (std::size_t i = most; i < counts.size(); i++) others += counts[i].second;
  counts.resize(std::min(counts.size(), most));
  std::sort(counts.begin(), counts.end());
  std::vector<Column> columns;
  for (const auto& [tasks, count] : counts)
    columns.push_back(
        {std::to_string(tasks), fmt::format("{} tasks: {} submits", tasks, count), count});
  if (others != 0) columns.push_back({"others", fmt::format("others: {} submits", others), others});
  return columns;
}

std::vector<Column> time_columns(const Histogram& times) {
  if (times.count() == 0) return {};
  const auto& buckets = times.buckets();
  std::size_t first = 0;
  while (buckets[first] == 0) first++;
  const std::size_t span = buckets.size() - first;
  const std::size_t group = span <= 64 ? 1 : span <= 256 ? 4 : 16;
  first -= first % group;
  std::vector<Column> columns;
  for (std::size_t i = first; i < buckets.size(); i += group) {
    std::uint64_t count = 0;
    for (std::size_t j = i; j < std::min(i + group, buckets.size()); j++) count += buckets[j];
    const auto from = static_cast<double>(Histogram::low(i));
    const auto to = static_cast<double>(Histogram::low(i + group));
    columns.push_back(
        {"", fmt::format("{} to {}: {} submits", duration(from), duration(to), count), count});
  }
  // About eight labels.
  const std::size_t each = std::max<std::size_t>(1, (columns.size() + 7) / 8);
  for (std::size_t i = 0; i < columns.size(); i += each)
    columns[i].label = duration(static_cast<double>(Histogram::low(first + i * group)));
  return columns;
}

std::string_view colour(std::size_t lane) {
  static constexpr std::string_view colours[] = {"#3572b0", "#c0572b", "#3a8f4f",
                                                 "#8655a6", "#9a7b1f", "#3d8f95"};
  return colours[lane % std::size(colours)];
}

double draw_timeline(Drawing& to, double top, const Report& report) {
  to.text(left, top + 20, "start", "Submits of each core over time", "head");
  std::set<std::uint32_t> cores;
  std::uint64_t begin = ~std::uint64_t{0}, end = 0, submits = 0;
  for (const Bar& bar : report.bars) {
    cores.insert(bar.core);
    begin = std::min(begin, bar.begin_ns);
    end = std::max(end, bar.end_ns);
    submits += bar.submits;
  }
  const double floor =
      top + 40 + lane_height * std::max<double>(1, static_cast<double>(cores.size()));
  if (report.bars.empty()) {
    to.text((left + right) / 2, floor - 10, "middle", "no submit with both of its times");
    return floor + 40;
  }
  const double scale = (right - left) / std::max(1.0, static_cast<double>(end - begin));
  const auto x_of = [&](std::uint64_t ns) {
    return left + static_cast<double>(ns - begin) * scale;
  };
  std::size_t lane = 0;
  for (const std::uint32_t core : cores) {
    const double y = top + 40 + lane_height * static_cast<double>(lane);
    to.text(left - 6, y + lane_height / 2 + 4, "end",
            core == 0 ? "auto" : fmt::format("core {:#x}", core));
    to.put("<g fill=\"{}\">\n", colour(lane));
    for (const Bar& bar : report.bars)
      if (bar.core == core)
        to.rect(x_of(bar.begin_ns), y + 5, std::max(0.3, x_of(bar.end_ns) - x_of(bar.begin_ns)),
                lane_height - 10, "lane",
                fmt::format("{} submits, {}", bar.submits,
                            duration(static_cast<double>(bar.end_ns - bar.begin_ns))));
    to.put("</g>\n");
    lane++;
  }
  to.line(left, floor, right, floor, "axis");
  for (int i = 0; i <= 5; i++) {
    const double x = left + (right - left) * i / 5;
    to.line(x, floor, x, floor + 5, "axis");
    to.text(x, floor + 18, "middle", duration(static_cast<double>(end - begin) * i / 5));
  }
  to.text(
      (left + right) / 2, floor + 36, "middle",
      report.bar_ns == 0
          ? fmt::format("time since the first submit; each bar is one of {} submits", submits)
          : fmt::format("time since the first submit; {} bars for {} submits: those of a core "
                        "within {} are one bar",
                        report.bars.size(), submits, duration(static_cast<double>(report.bar_ns))));
  return floor + 60;
}

}  // namespace

std::string duration(double ns) {
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.3g} us", ns / 1e3);
  if (ns < 1e9) return fmt::format("{:.3g} ms", ns / 1e6);
  return ns < 1e12 ? fmt::format("{:.3g} s", ns / 1e9) : fmt::format("{:.0f} s", ns / 1e9);
}

std::string draw_svg(const Report& report, std::string_view title) {
  Drawing drawing;
  const Stats& stats = report.total;
  drawing.text(left, 30, "start", title, "head");
  drawing.text(
      left, 48, "start",
      fmt::format("{} submits, {} tasks, {} failed", stats.submits, stats.tasks, stats.failed));
  double y =
      draw_columns(drawing, 60, "Tasks per submit", "tasks of a submit", task_columns(stats));
  y = draw_columns(drawing, y, "Time between submits",
                   "time from one submit to the next (logarithmic)",
                   time_columns(stats.between_ns));
  y = draw_timeline(drawing, y, report);
  return drawing.document(y + 10, title);
}

}  // namespace rkchain::capture
