#!/usr/bin/env python3
"""Prints src/eadem/numerics/elementary_tables.h: the constants of the elementary functions (needs mpmath).

Polynomials are Chebyshev interpolants made at 300 bits, then rounded; double-double entries are {hi, lo}.
"""
from mpmath import (mp, mpf, chebyfit, log, exp, expm1, sqrt, pi, sin, cos, atan, atanh, erf, erfc, cbrt, floor, findroot,
                    taylor, factorial)

mp.prec = 300
TINY = mpf(2) ** -80


def fit(f, a, b, n):
    """n coefficients, lowest first, of a near-minimax polynomial for f on [a, b]."""
    return chebyfit(f, [a, b], n)[::-1]


def fit_centred(f, a, b, n):
    c = (a + b) / 2
    return fit(lambda h: f(c + h), a - c, b - c, n)


def d(x):
    x = float(x)  # mpmath rounds to nearest even
    return x.hex().replace("0x1.0000000000000p", "0x1p")


def dd(x):
    hi = float(x)
    return "{%s, %s}" % (d(hi), d(x - mpf(hi)))


def array(name, type_, items, comment=None, dims="[]"):
    if comment:
        print("// " + comment)
    print("inline constexpr %s %s%s = {" % (type_, name, dims))
    print("    " + ",\n    ".join(items) + "};\n")


def scalar(name, x, comment=""):
    print("inline constexpr DoubleDouble %s = %s;%s" % (name, dd(x), "  // " + comment if comment else ""))


def rows(table, form):
    return ["{" + ", ".join(form(c) for c in row) + "}" for row in table]


print("""#pragma once

// Made by scripts/elementary_tables.py; not to be edited by hand.

#include <cstdint>

#include "eadem/numerics/double_double.h"

// clang-format off
namespace eadem::numerics::core {
""")
ln2 = log(2)
scalar("kLn2", ln2)
scalar("kLog2E", 1 / ln2)
scalar("kLog10E", 1 / log(10))
scalar("kLog10Of2", ln2 / log(10))
scalar("kHalfPi", pi / 2)
scalar("kQuarterPi", pi / 4)
scalar("kPi", pi)
scalar("kSqrtHalf", sqrt(mpf(1) / 2))
scalar("kSqrt2", sqrt(mpf(2)))
scalar("kTwoOverSqrtPi", 2 / sqrt(pi))
scalar("kSqrtPiOver2", sqrt(pi) / 2, "sqrt(pi) / 2, the slope of erfinv at 0")
scalar("kSqrtHalfPi", sqrt(pi / 2), "sqrt(pi / 2), the slope of sqrt2_erfinv at 0")
scalar("kInverseSqrt2Pi", 1 / sqrt(2 * pi), "the normal density at 0")
A = 2 * sqrt(2 / pi)
scalar("kGeluTanhA", A, "gelu_tanh(x) = x sigmoid(x (A + B x^2)): A = 2 sqrt(2 / pi)")
scalar("kGeluTanhB", A * mpf("0.044715"), "B = 0.044715 A")
scalar("kGeluTanh3B", 3 * A * mpf("0.044715"))
print()


def split(x, bits):
    """x cut to its leading `bits` bits, so that products with small integers are exact."""
    if x == 0:
        return mpf(0)
    e = int(floor(log(abs(x), 2)))
    s = mpf(2) ** (bits - 1 - e)
    return floor(x * s) / s


def three(name, x, bits, comment):
    a = split(x, bits)
    b = split(x - a, bits)
    print("inline constexpr double %s[3] = {%s, %s, %s};  // %s" % (name, d(a), d(b), d(x - a - b), comment))


three("kLn2Parts", ln2, 33, "ln 2; n times the first two is exact for |n| < 2^20")
three("kLn2Over64Parts", ln2 / 64, 35, "ln 2 / 64; n times the first two is exact for |n| < 2^18")
print()

a = ln2 / 2 * mpf("1.001")
array("kExp", "double", [d(c) for c in fit(lambda r: (expm1(r) - r) / r**2 if abs(r) > TINY else mpf(1) / 2, -a, a, 11)],
      "(exp(r) - 1 - r) / r^2 on |r| <= ln2/2: relative error of exp below 2^-59.")
array("kExp2Table", "DoubleDouble", [dd(mpf(2) ** (mpf(j) / 64)) for j in range(64)], "2^(j/64).")
array("kInverseFactorial", "DoubleDouble", [dd(1 / factorial(n)) for n in range(0, 30)], "1/n!.")


def log_q(z):
    s = sqrt(z)
    return (2 * atanh(s) - 2 * s) / (s * z) if z > TINY else mpf(2) / 3


array("kLog", "double", [d(c) for c in fit(log_q, 0, mpf("0.02945"), 8)],
      "(2 atanh(s) - 2 s) / s^3 in s^2, for log(m) = 2 atanh((m - 1) / (m + 1)), m in [sqrt(1/2), sqrt(2)]: below 2^-60.")

R = (pi / 4) ** 2 * mpf("1.001")
array("kSin", "double",
      [d(c) for c in fit(lambda z: (sin(sqrt(z)) - sqrt(z)) / (sqrt(z) * z) if z > TINY else -mpf(1) / 6, 0, R, 6)],
      "(sin(r) - r) / r^3 in r^2 on |r| <= pi/4: below 2^-55.")
array("kCos", "double",
      [d(c) for c in fit(lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2 if z > mpf(2)**-60 else mpf(1) / 24, 0, R, 6)],
      "(cos(r) - 1 + r^2/2) / r^4 in r^2: below 2^-59.")
bits = 22 * 64
mp.prec = bits + 100
integer = int(floor((2 / pi) * mpf(2) ** bits))
mp.prec = 300
array("kTwoOverPi", "std::uint64_t",
      ["0"] + ["0x%016x" % ((integer >> (bits - 64 * (i + 1))) & (2**64 - 1)) for i in range(22)],
      "2/pi as binary digits, the first word being the integer part.")
array("kAtan", "double",
      [d(c) for c in fit(lambda z: (atan(sqrt(z)) - sqrt(z)) / (sqrt(z) * z) if z > TINY else -mpf(1) / 3, 0,
                         (sqrt(mpf(2)) - 1) ** 2 * mpf("1.001"), 12)],
      "(atan(t) - t) / t^3 in t^2 on |t| <= tan(pi/8): below 2^-61.")
array("kCbrt", "double", [d(c) for c in fit(cbrt, 1, 8, 6)], "cbrt(m) on [1, 8]: 2^-9.4, a start.")


def erf_q(z):
    x = sqrt(z)
    return erf(x) / x if z > TINY else 2 / sqrt(pi)


array("kErf", "double", [d(c) for c in fit(erf_q, 0, 1, 13)], "erf(x) / x in x^2 on |x| <= 1: below 2^-62.")
array("kErfAccurate", "DoubleDouble", [dd(c) for c in fit(erf_q, 0, 1, 18)], "The same, below 2^-92.")


def erfcx_w(w):
    x = 1 / w - 1
    return exp(x * x) * erfc(x)


pieces = [(max(mpf(i) / 16, mpf(1) / 29), mpf(i + 1) / 16) for i in range(11)]


def erfcx_fit(i, n):
    c = (mpf(i) + mpf(1) / 2) / 16
    lo, hi = pieces[i]
    return fit(lambda h: erfcx_w(c + h), lo - c, hi - c, n)


array("kErfcx", "double", rows([erfcx_fit(i, 11) for i in range(11)], d),
      "exp(x^2) erfc(x) in h = w - (i + 1/2)/16, w = 1/(1 + x), i = floor(16 w), 0.5 <= x <= 28: below 2^-51.", "[11][11]")
array("kErfcxAccurate", "DoubleDouble", rows([erfcx_fit(i, 16) for i in range(11)], dd), "The same, below 2^-75.",
      "[11][16]")


def erfinv_l(L):
    if L < mpf(2) ** -100:
        return sqrt(pi) / 2
    x = sqrt(-expm1(-L))
    q = exp(-L) / (1 + x)  # 1 - x
    y = sqrt(L) * mpf("0.85")
    for _ in range(80):
        s = (erfc(y) - q) / (2 / sqrt(pi) * exp(-y * y))
        step = s / (1 - y * s)
        y += step
        if abs(step) < mpf(2) ** -200 * y:
            break
    return y / x


array("kErfinv", "double",
      rows([fit_centred(erfinv_l, mpf(i), mpf(i + 1), 12) for i in range(37)], d),
      "erfinv(x) / x in h = L - i - 1/2, L = -log(1 - x^2), i = floor(L): below 2^-56.", "[37][12]")

# The zeros of the derivatives, where f64 needs more digits than double-double arithmetic on the formula leaves.


def phi(x):
    return exp(-x * x / 2) / sqrt(2 * pi)


def gelu_d(x):
    return erfc(-x / sqrt(mpf(2))) / 2 + x * phi(x)


def silu_d(x):
    s = 1 / (1 + exp(-x))
    return s * (1 + x * (1 - s))


def gelu_tanh_d(x):
    v = x * (A + A * mpf("0.044715") * x * x)
    s = 1 / (1 + exp(-v))
    return s * (1 + x * (1 - s) * (A + 3 * A * mpf("0.044715") * x * x))


print("// A zero of a derivative in three parts, and the Taylor coefficients there (the first in double-double).")
print("struct DerivativeZero {\n  double at[3];\n  DoubleDouble slope;\n  double higher[4];\n};")
for name, f, start in (("kSiluDerivativeZero", silu_d, -1.2785), ("kGeluDerivativeZero", gelu_d, -0.7518),
                       ("kGeluTanhDerivativeZero", gelu_tanh_d, -0.7525)):
    root = findroot(f, mpf(start), tol=mpf(2)**-500)
    mp.prec = 700
    root = findroot(f, root, tol=mpf(2)**-1200)
    t = taylor(f, root, 5)
    x0 = mpf(float(root))
    x1 = mpf(float(root - x0))
    print("inline constexpr DerivativeZero %s = {{%s, %s, %s}, %s, {%s}};" % (
        name, d(x0), d(x1), d(root - x0 - x1), dd(t[1]), ", ".join(d(c) for c in t[2:6])))
    mp.prec = 300
print("\n}  // namespace eadem::numerics::core\n// clang-format on")
