#include <algorithm>
#include <map>
#include <string>

#include "eadem/ops/ops.h"

// einsum: products of pairs, from left to right, each one dot_general.

namespace eadem {
namespace {

struct Term {
  Array array;
  std::string labels;
};

struct Labels {
  std::vector<std::string> inputs;
  std::string output;
};

bool has(std::string_view labels, char label) {
  return labels.find(label) != std::string_view::npos;
}

[[noreturn]] void refuse(std::string_view equation, std::string_view why) {
  fail<ValueError>("[einsum] '{}': {}", equation, why);
}

// The axes that "..." stands for are labelled 12 - 1 .. 0 from the left, the last one 0: below every letter, and so
// that those of operands meet from the right, as broadcast axes do.
std::string ellipsis_labels(int axes) {
  std::string labels;
  for (int i = axes; i-- > 0;) labels += static_cast<char>(1 + i);
  return labels;
}
bool from_ellipsis(char label) {
  return label <= kMaxRank;
}

// Labels with "..." replaced by those of `axes` axes.
std::string expanded(std::string_view equation, std::string labels, int axes) {
  if (const std::size_t dots = labels.find("..."); dots != std::string::npos)
    labels.replace(dots, 3, ellipsis_labels(axes));
  for (const char c : labels)
    if (!from_ellipsis(c) && !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
      refuse(equation, fmt::format("labels are letters or one '...', got '{}'", c));
  return labels;
}

// "ij,jk->ik" for operands of these ranks; without an arrow, the output has the axes of "...", then the labels that
// come once, in alphabetical order, as NumPy's.
Labels parse(std::string_view text, std::span<const Array> operands) {
  std::string dense(text);
  std::erase(dense, ' ');
  for (const char c : dense)
    if (from_ellipsis(c)) refuse(text, "labels are letters or one '...'");
  Labels e;
  const std::size_t arrow = dense.find("->");
  const std::string inputs = dense.substr(0, arrow);
  for (std::size_t begin = 0; begin <= inputs.size();) {
    const std::size_t end = std::min(inputs.find(',', begin), inputs.size());
    e.inputs.push_back(inputs.substr(begin, end - begin));
    begin = end + 1;
  }
  if (e.inputs.size() != operands.size())
    refuse(text, fmt::format("it names {} operands, got {}", e.inputs.size(), operands.size()));
  int broadcast = 0;  // the most axes that "..." stands for
  for (std::size_t k = 0; k < operands.size(); ++k) {
    std::string& labels = e.inputs[k];
    const bool dots = labels.find("...") != std::string::npos;
    const int named = static_cast<int>(labels.size()) - (dots ? 3 : 0), rest = operands[k].rank() - named;
    if (dots ? rest < 0 : rest != 0)
      fail<ShapeError>("[einsum] '{}': operand {} is {}, its labels '{}' need rank {}{}", text, k, operands[k].type(),
                       labels, named, dots ? " or more" : "");
    if (dots) broadcast = std::max(broadcast, rest);
    labels = expanded(text, labels, rest);
  }
  if (arrow != std::string::npos) {
    e.output = expanded(text, dense.substr(arrow + 2), broadcast);
  } else {
    e.output = ellipsis_labels(broadcast);
    std::map<char, int> uses;
    for (const std::string& labels : e.inputs)
      for (const char c : labels) ++uses[c];
    for (const auto& [label, count] : uses)
      if (count == 1 && !from_ellipsis(label)) e.output += label;
  }
  for (std::size_t i = 0; i < e.output.size(); ++i) {
    const char c = e.output[i];
    if (e.output.find(c, i + 1) != std::string::npos) refuse(text, fmt::format("output label '{}' comes twice", c));
    if (std::none_of(e.inputs.begin(), e.inputs.end(), [c](const std::string& labels) { return has(labels, c); }))
      refuse(text, fmt::format("output label '{}' is in no operand", c));
  }
  for (const char c : ellipsis_labels(broadcast))
    if (!has(e.output, c)) refuse(text, "the output must have '...', as an operand's stands for axes");
  return e;
}

// The diagonal of the axes that share a label: the label comes once, where it came first.
Term diagonal(std::string_view equation, Term term) {
  for (std::size_t i = 0; i < term.labels.size(); ++i)
    for (std::size_t k; (k = term.labels.find(term.labels[i], i + 1)) != std::string::npos;) {
      const auto first = static_cast<int>(i), second = static_cast<int>(k);
      const std::int64_t n = term.array.shape()[first];
      if (term.array.shape()[second] != n)
        fail<ShapeError>("[einsum] '{}': label '{}' has extents {} and {} in {}", equation, term.labels[i], n,
                         term.array.shape()[second], term.array.type());
      Array x = move_axis(move_axis(term.array, second, -1), first, -2);
      Shape flat = x.shape();
      flat.pop_back();
      flat.back() = n * n;
      x = slice_axis(reshape(x, flat), -1, {std::nullopt, std::nullopt, n + 1});
      term = {move_axis(x, -1, first), term.labels.erase(k, 1)};
    }
  return term;
}

// Sums over the labels that nothing later needs.
Term summed(Term term, const std::string& later) {
  Shape axes;
  std::string kept;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (has(later, term.labels[i]))
      kept += term.labels[i];
    else
      axes.push_back(static_cast<std::int64_t>(i));
  }
  return axes.empty() ? term : Term{sum(term.array, axes), kept};
}

Term product(const Term& a, const Term& b, const std::string& later) {
  Shape a_contracting, b_contracting, a_batch, b_batch;
  std::string batch, a_free, b_free;
  for (std::size_t i = 0; i < a.labels.size(); ++i) {
    const char c = a.labels[i];
    if (!has(b.labels, c)) {
      a_free += c;
      continue;
    }
    const bool stays = has(later, c);
    if (stays) batch += c;
    (stays ? a_batch : a_contracting).push_back(static_cast<std::int64_t>(i));
    (stays ? b_batch : b_contracting).push_back(static_cast<std::int64_t>(b.labels.find(c)));
  }
  for (const char c : b.labels)
    if (!has(a.labels, c)) b_free += c;
  return {dot_general(a.array, b.array, a_contracting, b_contracting, a_batch, b_batch), batch + a_free + b_free};
}

}  // namespace

Array einsum(std::string_view equation, std::span<const Array> operands) {
  const Labels e = parse(equation, operands);
  std::vector<Term> terms;
  for (std::size_t k = 0; k < operands.size(); ++k) terms.push_back(diagonal(equation, {operands[k], e.inputs[k]}));
  std::map<char, std::int64_t> extents;
  for (const Term& term : terms)
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      const std::int64_t extent = term.array.shape()[static_cast<int>(i)];
      const char label = term.labels[i];
      const auto found = extents.emplace(label, extent).first;
      if (from_ellipsis(label) && found->second == 1) found->second = extent;
      if (found->second != extent && !(from_ellipsis(label) && extent == 1))
        fail<ShapeError>("[einsum] '{}': {} has extent {} before and {} in operand {}, {}", equation,
                         from_ellipsis(label) ? "an axis of '...'" : fmt::format("label '{}'", label), found->second,
                         extent, &term - terms.data(), term.array.type());
    }
  for (Term& term : terms) {
    Shape shape;
    for (const char label : term.labels) shape.push_back(extents[label]);
    if (shape != term.array.shape()) term.array = broadcast_to(term.array, shape);
  }
  const auto needed_after = [&](std::size_t k) {
    std::string labels = e.output;
    for (std::size_t i = k + 1; i < terms.size(); ++i) labels += terms[i].labels;
    return labels;
  };
  Term term = terms[0];
  for (std::size_t k = 1; k < terms.size(); ++k) {
    const std::string later = needed_after(k);
    term = product(summed(term, later + terms[k].labels), summed(terms[k], later + term.labels), later);
  }
  term = summed(term, e.output);
  Shape axes;
  for (const char c : e.output) axes.push_back(static_cast<std::int64_t>(term.labels.find(c)));
  return term.labels == e.output ? term.array : transpose(term.array, axes);
}

}  // namespace eadem
