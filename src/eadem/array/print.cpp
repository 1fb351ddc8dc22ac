#include "eadem/array/print.h"

#include "eadem/numerics/rounding.h"

namespace eadem {
namespace {

constexpr std::int64_t kMostShown = 6, kEdge = 3;

std::string element(DType dtype, const std::byte* data) {
  return visit(dtype, [&]<class T>(std::type_identity<T>) -> std::string {
    const T value = *reinterpret_cast<const T*>(data);
    if constexpr (Float16<T>) {
      // The fewest digits that this dtype, and not a wider one, reads back.
      const double wide = numerics::to_double(value);
      for (int digits = 1; digits < 9; ++digits) {
        const std::string text = fmt::format("{:.{}g}", wide, digits);
        if (numerics::to_double(numerics::round_to<T>(std::stod(text))) == wide) return text;
      }
      return fmt::format("{}", wide);
    } else if constexpr (FloatingElement<T>) {
      return fmt::format("{}", value);
    } else if constexpr (std::same_as<T, bool>) {
      return value ? "true" : "false";
    } else {
      return fmt::format("{}",
                         static_cast<std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>(value));
    }
  });
}

void append(std::string& text, const TensorView& view, int axis, const std::byte* data) {
  if (axis == view.shape.rank()) {
    text += element(view.dtype, data);
    return;
  }
  text += '[';
  const std::int64_t extent = view.shape[axis];
  for (std::int64_t i = 0; i < extent; ++i) {
    if (extent > kMostShown && i == kEdge) {
      text += ", ...";
      i = extent - kEdge;
    }
    if (i > 0) text += ", ";
    append(text, view, axis + 1, data + i * view.strides[axis] * static_cast<std::int64_t>(size_of(view.dtype)));
  }
  text += ']';
}

}  // namespace

std::string to_string(const Array& array) {
  std::string text = fmt::format("{}", array.type());
  if (array.traced()) return text + " (traced)";
  text += ' ';
  append(text, array.view(), 0, array.view().data);
  return text;
}

}  // namespace eadem
