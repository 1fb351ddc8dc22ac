#pragma once

#include <span>
#include <vector>

#include "eadem/array/array.h"
#include "eadem/ir/program.h"

// The contexts that the rules of a primitive are written against. Rules use the ordinary functions on arrays, so that
// what they do is itself run, recorded, differentiated or batched.

namespace eadem {

/// An equation at the values where it is differentiated.
class Point {
 public:
  Point(const Equation& equation, std::span<const Array> operands, std::span<const Array> results)
      : equation_(equation), operands_(operands), results_(results) {}
  std::size_t operands() const { return operands_.size(); }
  std::size_t results() const { return results_.size(); }
  const Array& in(std::size_t operand = 0) const { return operands_[operand]; }
  const Array& out(std::size_t result = 0) const { return results_[result]; }
  const Primitive& primitive() const { return *equation_.primitive; }
  const Equation& equation() const { return equation_; }
  const void* attributes() const { return equation_.attributes.get(); }
  template <class A>
  const A& as() const {
    return *static_cast<const A*>(equation_.attributes.get());
  }

 protected:
  const Equation& equation_;
  std::span<const Array> operands_, results_;
};

/// A sum of cotangents or tangents of one value (numerics.md section 6): it starts at +0, adds in f64 in the order of
/// the calls, and is rounded once; so it is never -0.
class Accumulator {
 public:
  bool empty() const { return !wide_ && few_.empty() && windows_.empty(); }
  /// Adds a contribution of the value's dtype. `canonical`: it is known not to hold -0.
  void add(const Array& contribution, bool canonical);
  /// Adds a contribution that is +0 but for elements [start, start + its extent) of one axis; it holds no -0. Windows
  /// that do not meet are kept until they are one array, so that a value sliced n times costs no n arrays of its size.
  void add_window(const Array& contribution, int axis, std::int64_t start, const Shape& shape);
  /// Adds what another accumulator of the value holds: takes it over when this one is empty.
  void append(const Accumulator& other, DType dtype);
  /// A sum handed on from elsewhere, in wide_dtype of the value's.
  static Accumulator from_wide(const Array& sum);
  /// The sum in the value's dtype; not of an empty one.
  Array rounded(DType dtype) const;
  /// The sum as it is handed on, in wide_dtype(dtype).
  Array wide(DType dtype) const;

 private:
  struct Contribution {
    Array array;
    bool canonical;
  };
  struct Window {
    std::int64_t start;
    Array array;
  };
  void widen(DType dtype);
  void join_windows();

  std::vector<Window> windows_;  // ascending, all along window_axis_ of an array of window_shape_; before all others
  int window_axis_ = 0;
  Shape window_shape_;
  std::vector<Contribution> few_;  // up to two are added by one plain addition
  std::optional<Array> wide_;
};

/// In which dtype values of this one are accumulated: f64, or the value's own while narrow accumulators are set, as the
/// tests of the laws do, since wide ones hide an order that differs.
DType wide_dtype(DType);
void set_narrow_accumulators(bool);
/// Makes a -0 in a contribution that a rule calls canonical an error: for tests, as it costs a look at every element.
void set_canonical_checked(bool);
/// What add_canonical does under that check. Throws ValueError.
void check_canonical(std::string_view primitive, const Array& contribution);

/// Reverse mode, at one equation: cotangents of the results in, contributions to those of the operands out.
class Vjp : public Point {
 public:
  using Point::Point;
  virtual ~Vjp() = default;
  /// Whether operand i is to get contributions; those to others are dropped, so rules need ask only to save work.
  virtual bool wants(std::size_t operand) const = 0;
  /// Whether result i has a cotangent; one result always has.
  virtual bool has_ct(std::size_t result) const = 0;
  /// The cotangent of result i, rounded to its dtype; zeros where it has none.
  virtual Array ct(std::size_t result = 0) = 0;
  /// Adds to the cotangent of operand i; throws unless it has the operand's type.
  void add(std::size_t operand, const Array& contribution) { contribute(operand, contribution, false); }
  /// The same for a contribution that never holds -0: rearranged cotangents, gated products, exact sums, contractions
  /// to f32 and f64. (What is rounded to 16 bits from a wider negative may be -0.)
  void add_canonical(std::size_t operand, const Array& contribution) { contribute(operand, contribution, true); }
  /// The same for one that is +0 but for elements [start, start + its extent) of one axis of the operand.
  virtual void add_window(std::size_t operand, const Array& contribution, int axis, std::int64_t start) = 0;
  /// What run_saving kept.
  virtual const Arrays& saved() const = 0;
  /// For higher-order primitives, which hand accumulators on as they are: that of a result, and that of an operand.
  virtual const Accumulator& result_accumulator(std::size_t result) const = 0;
  virtual Accumulator& operand_accumulator(std::size_t operand) = 0;

 protected:
  virtual void contribute(std::size_t operand, const Array& contribution, bool canonical) = 0;
};

/// Forward mode, at one equation: tangents of the operands in, contributions to those of the results out.
class Jvp : public Point {
 public:
  using Point::Point;
  virtual ~Jvp() = default;
  /// Whether operand i has a tangent; at least one has.
  virtual bool has(std::size_t operand) const = 0;
  /// The tangent of operand i; zeros where it has none.
  virtual Array tangent(std::size_t operand = 0) = 0;
  /// Adds to the tangent of result i.
  void add(const Array& contribution, std::size_t result = 0) { contribute(result, contribution, false); }
  void add_canonical(const Array& contribution, std::size_t result = 0) { contribute(result, contribution, true); }

 protected:
  virtual void contribute(std::size_t result, const Array& contribution, bool canonical) = 0;
};

/// One equation over a batch: batched operands carry the batch as their axis 0, and so must every result.
class Batch {
 public:
  Batch(const Equation& equation, std::span<const Array> operands, const std::vector<bool>& batched, std::int64_t size,
        Arrays (*by_slices)(const Batch&))
      : equation_(equation), operands_(operands), batched_(batched), size_(size), by_slices_(by_slices) {}
  std::int64_t size() const { return size_; }
  std::size_t operands() const { return operands_.size(); }
  bool batched(std::size_t operand) const { return batched_[operand]; }
  const Array& in(std::size_t operand = 0) const { return operands_[operand]; }
  /// Operand i with the batch axis, broadcast if it had none.
  Array with_axis(std::size_t operand) const;
  /// The rank of operand i without the batch axis.
  int rank(std::size_t operand = 0) const { return in(operand).rank() - (batched(operand) ? 1 : 0); }
  const Primitive& primitive() const { return *equation_.primitive; }
  const Equation& equation() const { return equation_; }
  template <class A>
  const A& as() const {
    return *static_cast<const A*>(equation_.attributes.get());
  }
  std::vector<bool> flags() const { return batched_; }
  /// The results, batch axis first.
  void set(Arrays results) { results_ = std::move(results); }
  void set(const Array& result) { results_ = {result}; }
  /// Runs slice by slice, which is always right: for the cases that a rule has no better form for.
  void set_by_slices() { results_ = by_slices_(*this); }
  Arrays take_results() { return std::move(results_); }

 private:
  const Equation& equation_;
  std::span<const Array> operands_;
  const std::vector<bool>& batched_;
  std::int64_t size_;
  Arrays (*by_slices_)(const Batch&);
  Arrays results_;
};

}  // namespace eadem
