#include "eadem/train/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "eadem/base/error.h"

namespace eadem::train {
namespace {

constexpr double kWidth = 720, kHeight = 440, kLeft = 64, kRight = 16, kTop = 40, kBottom = 52;
constexpr std::string_view kColours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e"};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

// A range of values in steps of 1, 2 or 5 times a power of ten, about five of them.
struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = -low, step = 1;

  void cover(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void round() {
    if (!(low <= high)) low = 0, high = 1;  // nothing to show
    const double span = high > low ? high - low : std::max(std::abs(high), 1.0);
    const double power = std::pow(10, std::floor(std::log10(span / 5)));
    step = power * (span / 5 <= 2 * power ? 2 : span / 5 <= 5 * power ? 5 : 10);
    low = std::floor(low / step) * step;
    high = std::max(std::ceil(high / step) * step, low + step);
  }
  // Where a value stands, from 0 to 1.
  double at(double value) const { return (value - low) / (high - low); }
};

}  // namespace

std::string chart_svg(std::string_view title, std::string_view x_name, std::string_view y_name,
                      std::span<const Curve> curves) {
  Axis x, y;
  for (const Curve& curve : curves) {
    if (curve.x.size() != curve.y.size())
      fail<ValueError>("[chart] '{}' has {} x and {} y", curve.name, curve.x.size(), curve.y.size());
    for (std::size_t i = 0; i < curve.x.size(); ++i)
      if (std::isfinite(curve.x[i]) && std::isfinite(curve.y[i])) x.cover(curve.x[i]), y.cover(curve.y[i]);
  }
  x.round();
  y.round();
  const auto across = [&](double value) { return kLeft + x.at(value) * (kWidth - kLeft - kRight); };
  const auto down = [&](double value) { return kHeight - kBottom - y.at(value) * (kHeight - kTop - kBottom); };

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      kWidth, kHeight);
  const auto text = [&](double at_x, double at_y, std::string_view more, std::string_view what) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", at_x, at_y, more, escaped(what));
  };
  const auto line = [&](double x0, double y0, double x1, double y1, std::string_view colour) {
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"{}\"/>\n", x0, y0, x1, y1, colour);
  };
  text(kWidth / 2, 22, "text-anchor=\"middle\" font-size=\"15\"", title);
  text((kLeft + kWidth - kRight) / 2, kHeight - 12, "text-anchor=\"middle\"", x_name);
  const double middle = (kTop + kHeight - kBottom) / 2;
  text(16, middle, fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 16 {:.1f})\"", middle), y_name);
  const auto count = [](const Axis& axis) { return std::lround((axis.high - axis.low) / axis.step); };
  const auto label = [](const Axis& axis, double value) {
    return fmt::format("{:.6g}", std::abs(value) < axis.step / 2 ? 0 : value);
  };
  for (long i = 0; i <= count(x); ++i) {
    const double value = x.low + static_cast<double>(i) * x.step;
    line(across(value), kTop, across(value), kHeight - kBottom, i == 0 ? "#444" : "#ddd");
    text(across(value), kHeight - kBottom + 18, "text-anchor=\"middle\"", label(x, value));
  }
  for (long i = 0; i <= count(y); ++i) {
    const double value = y.low + static_cast<double>(i) * y.step;
    line(kLeft, down(value), kWidth - kRight, down(value), i == 0 ? "#444" : "#ddd");
    text(kLeft - 6, down(value) + 4, "text-anchor=\"end\"", label(y, value));
  }
  for (std::size_t k = 0; k < curves.size(); ++k) {
    const Curve& curve = curves[k];
    const std::string_view colour = kColours[k % std::size(kColours)];
    std::string points;
    for (std::size_t i = 0; i < curve.x.size(); ++i)
      if (std::isfinite(curve.x[i]) && std::isfinite(curve.y[i]))
        points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", across(curve.x[i]), down(curve.y[i]));
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", points, colour);
    text(kWidth - kRight - 8, kTop + 18 + 16 * static_cast<double>(k),
         fmt::format("text-anchor=\"end\" fill=\"{}\"", colour), curve.name);
  }
  return svg + "</svg>\n";
}

}  // namespace eadem::train
