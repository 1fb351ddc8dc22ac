#pragma once

#include <span>
#include <string>
#include <vector>

namespace eadem::train {

/// A line of a chart; points that are not finite are left out.
struct Curve {
  std::string name;
  std::vector<double> x, y;
};

/// A chart of lines as SVG, 720 by 440: title, axes with round ticks, names of the axes and of the lines. Its text
/// depends on its arguments alone. Throws ValueError unless each line has as many x as y.
std::string chart_svg(std::string_view title, std::string_view x_name, std::string_view y_name,
                      std::span<const Curve> curves);

}  // namespace eadem::train
