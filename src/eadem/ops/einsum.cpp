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

void require_labels(std::string_view equation, std::string_view labels) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const char c = labels[i];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
      refuse(equation, fmt::format("labels are letters, got '{}'", c));
    if (labels.find(c, i + 1) != std::string_view::npos)
      refuse(equation, fmt::format("label '{}' comes twice in '{}'", c, labels));
  }
}

// "ij,jk->ik"; without an arrow, the output has the labels that come once, in alphabetical order, as NumPy's.
Labels parse(std::string_view text) {
  std::string dense(text);
  std::erase(dense, ' ');
  Labels e;
  const std::size_t arrow = dense.find("->");
  std::string inputs = dense.substr(0, arrow);
  for (std::size_t begin = 0; begin <= inputs.size();) {
    const std::size_t end = std::min(inputs.find(',', begin), inputs.size());
    e.inputs.push_back(inputs.substr(begin, end - begin));
    begin = end + 1;
  }
  for (const std::string& labels : e.inputs) require_labels(text, labels);
  if (arrow != std::string::npos) {
    e.output = dense.substr(arrow + 2);
    require_labels(text, e.output);
  } else {
    std::map<char, int> uses;
    for (const std::string& labels : e.inputs)
      for (const char c : labels) ++uses[c];
    for (const auto& [label, count] : uses)
      if (count == 1) e.output += label;
  }
  for (const char c : e.output)
    if (std::none_of(e.inputs.begin(), e.inputs.end(), [c](const std::string& labels) { return has(labels, c); }))
      refuse(text, fmt::format("output label '{}' is in no operand", c));
  return e;
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
  const Labels e = parse(equation);
  if (e.inputs.size() != operands.size())
    refuse(equation, fmt::format("it names {} operands, got {}", e.inputs.size(), operands.size()));
  std::map<char, std::int64_t> extents;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (operands[k].rank() != static_cast<int>(e.inputs[k].size()))
      fail<ShapeError>("[einsum] '{}': operand {} is {}, its labels '{}' need rank {}", equation, k, operands[k].type(),
                       e.inputs[k], e.inputs[k].size());
    for (std::size_t i = 0; i < e.inputs[k].size(); ++i) {
      const std::int64_t extent = operands[k].shape()[static_cast<int>(i)];
      const auto found = extents.emplace(e.inputs[k][i], extent).first;
      if (found->second != extent)
        fail<ShapeError>("[einsum] '{}': label '{}' has extent {} before and {} in operand {}, {}", equation,
                         e.inputs[k][i], found->second, extent, k, operands[k].type());
    }
  }
  const auto needed_after = [&](std::size_t k) {
    std::string labels = e.output;
    for (std::size_t i = k + 1; i < e.inputs.size(); ++i) labels += e.inputs[i];
    return labels;
  };
  Term term{operands[0], e.inputs[0]};
  for (std::size_t k = 1; k < operands.size(); ++k) {
    const std::string later = needed_after(k);
    const Term next{operands[k], e.inputs[k]};
    term = product(summed(term, later + next.labels), summed(next, later + term.labels), later);
  }
  term = summed(term, e.output);
  Shape axes;
  for (const char c : e.output) axes.push_back(static_cast<std::int64_t>(term.labels.find(c)));
  return term.labels == e.output ? term.array : transpose(term.array, axes);
}

}  // namespace eadem
